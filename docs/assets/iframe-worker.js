// Search in pages that are opened from disk: browsers start no worker from file://, so one is a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame;
      this.waiting = [];
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.answer(data);
      inner.importScripts = (...urls) => urls.reduce(
        (done, script) => done.then(() => this.load(script)), Promise.resolve());
      this.load(url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.ask(data));
      });
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = done;
        script.onerror = () => failed(new Error(url));
        this.frame.contentDocument.body.appendChild(script);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.ask(data);
    }

    ask(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    answer(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
