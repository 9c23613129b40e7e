"""A browser without a window, driven through the WebDriver protocol with the standard library alone."""

import base64
import contextlib
import json
import shutil
import subprocess
import urllib.error
import urllib.request


def missing():
    """The programs that are needed and not there."""
    needed = {"chromium": chromium(), "chromedriver": shutil.which("chromedriver")}
    return [name for name, path in needed.items() if not path]


def chromium():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One headless Chromium. What it says on its console and what it asks of the network can be read back."""

    def __init__(self, width=1280, height=900, dark=False):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.address = self._wait_for_driver()
            arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
            made = self._post("", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "timeouts": {"script": 240_000}, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "goog:chromeOptions": {"binary": chromium(), "args": arguments}}}}, path="/session")
            self.session = made["sessionId"]
            self.resize(width, height)
            self.command("Emulation.setEmulatedMedia",
                         features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        except BaseException:
            self.close()
            raise

    def _wait_for_driver(self):
        for line in self.driver.stdout:
            if "successfully on port" in line:
                port = line.split()[-1].rstrip(".")
                return f"http://127.0.0.1:{port}"
        raise RuntimeError("chromedriver did not start")

    def _post(self, name, body, path=None):
        request = urllib.request.Request(self.address + (path or f"/session/{self.session}/{name}"), json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            raise RuntimeError(f"{name or 'session'}: {json.load(problem)['value']['message'].splitlines()[0]}") from problem

    def command(self, method, **parameters):
        """A command of Chromium's DevTools."""
        return self._post("goog/cdp/execute", {"cmd": method, "params": parameters})

    def resize(self, width, height):
        """The size of the page's window in CSS pixels; below 600 it is a phone's."""
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def visit(self, url):
        self._post("url", {"url": url})

    def run(self, script, *arguments):
        """What a function body gives: `return document.title`."""
        return self._post("execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """The same for a body that calls its last argument when it is done."""
        return self._post("execute/async", {"script": script, "args": list(arguments)})

    def type(self, keys):
        """Presses keys, one after another, wherever the focus is; WebDriver has characters for those without one."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def console(self):
        """What was said since the last call: {level, message} each."""
        return self._post("se/log", {"type": "browser"})

    def requests(self):
        """(address, whether it failed) of everything asked for since the last call."""
        asked, failed = {}, set()
        for entry in self._post("se/log", {"type": "performance"}):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                asked[event["params"]["requestId"]] = event["params"]["request"]["url"]
            elif event["method"] == "Network.loadingFailed" and not event["params"].get("canceled"):
                failed.add(event["params"]["requestId"])
            elif event["method"] == "Network.responseReceived" and event["params"]["response"]["status"] >= 400:
                failed.add(event["params"]["requestId"])
        return [(url, identity in failed) for identity, url in asked.items()]

    def screenshot(self):
        """What the window shows, as PNG."""
        return base64.b64decode(self.command("Page.captureScreenshot")["data"])

    def close(self):
        with contextlib.suppress(Exception):
            urllib.request.urlopen(urllib.request.Request(f"{self.address}/session/{self.session}", method="DELETE"), timeout=20)
        self.driver.stdout.close()
        self.driver.terminate()
        self.driver.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
