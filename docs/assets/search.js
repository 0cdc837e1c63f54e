// Pages of a disk may start no worker and read no file: there the search runs in the page itself,
// and its index comes as a script.
if (location.protocol === "file:") window.Worker = class {
  constructor(place) { this.folder = place.replace(/[^/]*$/, ""); }
  load(...names) {
    const made = document.createElement("script");
    made.src = this.folder + names[0];
    made.onload = () => names.length > 1 ? this.load(...names.slice(1)) : this.build();
    document.head.append(made);
  }
  build() {
    const docs = window.searchIndex.docs;
    this.documents = new Map(docs.map((doc) => [doc.location, doc]));
    this.index = lunr(function () {
      this.field("title"); this.field("text"); this.ref("location");
      docs.forEach((doc) => this.add(doc));
    });
    this.onmessage({data: {config: window.searchIndex.config}});
    this.onmessage({data: {allowSearch: true}});
  }
  postMessage({init, query}) {
    if (init) { this.load("lunr.js", "index.js"); return; }
    const found = this.index.search(query).map(({ref}) => this.documents.get(ref));
    const results = found.map((doc) => ({...doc, summary: doc.text.slice(0, 200)}));
    this.onmessage({data: {results}});
  }
};
