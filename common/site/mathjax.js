// Formulas are drawn as SVG: no font has to be loaded, which some browsers refuse for pages opened from a folder. No menu: it
// offers renderers that are not here.
MathJax.Hub.Config({showMathMenu: false, SVG: {scale: 95, blacker: 0, mtextFontInherit: true}});
