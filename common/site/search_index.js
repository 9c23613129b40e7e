// The index of the search. Standard input: a JSON list of places, {page, heading, text, url} each; standard output: the script that
// the site's pages load when somebody searches. The argument is Lunr.
const lunr = require(process.argv[2]);
const places = JSON.parse(require("fs").readFileSync(0, "utf8"));
lunr.tokenizer.separator = /[\s\-:]+/;  // a name is found without its namespaces; site.js splits words in the same way
const index = lunr(function () {
    this.pipeline.remove(lunr.stemmer);  // site.js asks for beginnings of words
    this.searchPipeline.remove(lunr.stemmer);
    this.ref("place");
    this.field("heading", { boost: 8 });
    this.field("page", { boost: 4 });
    this.field("text");
    places.forEach((place, i) => this.add({ ...place, place: i }, { boost: place.text ? 1 : 0.3 }));
});
process.stdout.write(`searchData = ${JSON.stringify({ places, index })};\n`);
