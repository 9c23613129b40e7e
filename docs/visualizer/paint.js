// Scores as pictures.

const dark = () => document.documentElement.dataset.theme === "dark";

/** Colours as the words of an image's pixels: scores from blue below zero through the paper's colour to red above, in 513 steps;
 *  the two of the hatching that stands for -inf; NaN; and what is not computed. */
function makePalette() {
  const word = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  const [below, middle, above] = dark() ? [[92, 158, 255], [32, 35, 42], [255, 138, 92]] : [[33, 88, 190], [250, 249, 246], [190, 62, 22]];
  const score = Uint32Array.from({length: 513}, (_, i) => {
    const x = (i - 256) / 256, end = x < 0 ? below : above, share = Math.sqrt(Math.abs(x));
    return word(middle.map((c, k) => Math.round(c + (end[k] - c) * share)));
  });
  const rest = dark() ? {hatch: [92, 98, 110], ground: [38, 42, 50], blank: [21, 23, 27]}
                      : {hatch: [150, 155, 165], ground: [239, 237, 231], blank: [255, 255, 255]};
  return {theme: dark(), score, hatch: word(rest.hatch), ground: word(rest.ground), blank: word(rest.blank), nan: word([224, 33, 138])};
}
let palette = null;

/** Paints rows × columns scores from (firstRow, firstColumn) on: a pixel for each, or fewer where a row is longer than any
 *  screen is wide. */
function paint(canvas, {values, known, stride, reach}, firstRow, firstColumn, rows, columns) {
  if (palette?.theme !== dark()) palette = makePalette();
  const {score, hatch, ground, blank, nan} = palette, pixels = Math.min(columns, 2048), step = columns / pixels;
  canvas.width = pixels;
  canvas.height = rows;
  canvas.shape = [rows, columns];
  const context = canvas.getContext("2d"), image = context.createImageData(pixels, rows), words = new Uint32Array(image.data.buffer);
  for (let row = 0, at = 0; row < rows; ++row)
    for (let pixel = 0; pixel < pixels; ++pixel, ++at) {
      const column = Math.floor(pixel * step), i = (row + firstRow) * stride + column + firstColumn, value = values[i];
      if (!known[i]) words[at] = blank;
      else if (value === MASKED) words[at] = (row + column) % 4 === 0 ? hatch : ground;
      else if (value !== value) words[at] = nan;
      else words[at] = score[256 + Math.round(256 * Math.max(-1, Math.min(1, value / reach)))];
    }
  context.putImageData(image, 0, 0);
}
