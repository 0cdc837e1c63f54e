// Pages of a disk may start no worker: there the search runs in a hidden frame of the page.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(place) {
    super();
    const frame = document.createElement("iframe"), script = document.createElement("script");
    this.ready = new Promise((done) => {
      script.onload = done;
      frame.onload = () => {
        this.inside = frame.contentWindow;
        this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
        frame.contentDocument.body.append(script);
      };
    });
    script.src = place;
    frame.hidden = true;
    document.body.append(frame);
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
  }
};
