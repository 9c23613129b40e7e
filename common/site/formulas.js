// Formulas as MathML. Standard input: a JSON list of [TeX, whether it is displayed]; standard output: a list of their MathML.
// The argument is KaTeX. A formula that it does not understand ends the program with a message.
const katex = require(process.argv[2]);
const formulas = JSON.parse(require("fs").readFileSync(0, "utf8"));
const drawn = formulas.map(([tex, displayMode]) => katex.renderToString(tex, { displayMode, output: "mathml", strict: "error" }));
process.stdout.write(JSON.stringify(drawn));
