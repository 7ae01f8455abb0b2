"""The report page in a real browser: sorting, tabs, colours, and no way out for hostile names."""

from __future__ import annotations

import json
import shutil

import pytest

from fake_records import METHODS, study
from outcode import report

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</textarea></pre><script>alert(1)</script>",
    "<!--<script>alert(1)",
    "--><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)' x='",
    '" autofocus onfocus=alert(1) x="',
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "</svg><svg onload=alert(1)>",
    "</title></svg><img src=x onerror=alert(1)>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<a href=javascript:alert(1)>click</a>",
    "javascript:alert(1)",
    "<object data=data:text/html,<script>alert(1)</script>></object>",
    "<base href=//example.invalid/>",
    "<meta http-equiv=refresh content='0;url=//example.invalid/'>",
    "<meta http-equiv=Content-Security-Policy content=\"script-src 'unsafe-inline'\">",
    "<link rel=stylesheet href=//example.invalid/x.css>",
    "<style>@import '//example.invalid/x.css';</style>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<form action=//example.invalid><button>send</button></form>",
    "<input autofocus onfocus=alert(1)>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "{% raw %}{{ 7*7 }}",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\\u003cscript\\u003ealert(1)",
    "\u202etxt.exe\u2066\u2069",
    "null\x00<script>\x00alert(1)</script>",
    "line\u2028alert(1)\u2029",
    "`;alert(1);//",
    "']});alert(1);//",
    "x" * 10_000,
    "שלום <b>עולם</b>",
    "]]><![CDATA[<script>alert(1)</script>]]>",
    "<x contenteditable onblur=alert(1)>focus",
    "<template><script>alert(1)</script></template>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    "url(javascript:alert(1))",
]


@pytest.fixture(scope="module")
def browser():
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no Chromium with its driver here: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    arguments = "--headless=new --no-sandbox --disable-gpu --window-size=1200,1600"
    for argument in [*arguments.split(), "--force-prefers-reduced-motion"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.set_capability("unhandledPromptBehavior", "ignore")
    service = webdriver.ChromeService(executable_path=driver)
    session = webdriver.Chrome(options=options, service=service)
    yield session
    session.quit()


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """An ordinary report, opened."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.write(report.summarise(*study(5)), path)
    browser.get(path.as_uri())
    return browser


def console(browser):
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser):
    """The addresses asked for since the last call, but those that the policy stopped."""
    messages = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    stopped = {
        m["params"]["requestId"]
        for m in messages
        if m["method"] == "Network.loadingFailed" and m["params"].get("blockedReason") == "csp"
    }
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [m["request"]["url"] for m in sent if m["requestId"] not in stopped]


def column(table, number):
    return table.parent.execute_script(
        "const [table, n] = arguments;"
        "return [...table.tBodies[0].rows].map(r => r.cells[n].dataset.v ?? null)",
        table,
        number,
    )


def test_the_page_opens_without_complaint_or_request(opened):
    assert opened.title == "outcode compare vowel.csv"
    assert console(opened) == []
    assert [url for url in requests(opened) if not url.startswith(("file:", "data:"))] == []
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_no_section_is_wider_than_the_window(opened):
    try:
        for width in (1200, 390, 360):
            screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            wide, window = opened.execute_script(
                "return [document.documentElement.scrollWidth, window.innerWidth]"
            )
            assert wide <= window == width
            hidden = opened.execute_script(
                "return [...document.querySelectorAll('#leaderboard .scroll, #answer')]"
                ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText.slice(0, 40))"
            )
            assert hidden == []  # no column of the leaderboard is cut off
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_leaderboard_sorts_both_ways_with_gaps_last(opened):
    table = opened.find_element("css selector", "#leaderboard table")
    heads = table.find_elements("css selector", "thead th")
    names = [head.text for head in heads]
    loss = names.index("log loss")
    heads[loss].find_element("tag name", "button").click()
    values = column(table, loss)
    known = [float(v) for v in values if v is not None]
    assert values[len(known) :] == [None] * 3  # three methods give no probabilities
    assert known == sorted(known)
    assert heads[loss].get_attribute("aria-sort") == "ascending"
    heads[loss].find_element("tag name", "button").click()
    values = column(table, loss)
    assert [float(v) for v in values[: len(known)]] == sorted(known, reverse=True)
    assert values[len(known) :] == [None] * 3
    heads[0].find_element("tag name", "button").click()
    rows = [row.text.split("\n")[0] for row in table.find_elements("css selector", "tbody th")]
    assert rows == sorted(METHODS)
    assert heads[loss].get_attribute("aria-sort") is None


def test_tabs_show_one_panel_by_mouse_and_keyboard(opened):
    panels = opened.find_elements("css selector", "#classes .panel")
    tabs = opened.find_elements("css selector", "#classes [role=tab]")
    assert len(panels) == len(tabs) == 5
    assert [panel.is_displayed() for panel in panels] == [True] + [False] * 4
    tabs[2].click()
    assert [panel.is_displayed() for panel in panels] == [False, False, True, False, False]
    tabs[2].send_keys("\ue014")  # the right arrow
    assert panels[3].is_displayed()
    assert tabs[3].get_attribute("aria-selected") == "true"
    assert opened.switch_to.active_element == tabs[3]


def test_colours_follow_the_button(opened):
    def background():
        return opened.execute_script("return getComputedStyle(document.body).backgroundColor")

    button = opened.find_element("id", "theme")
    before = background()
    button.click()
    dark = background()
    assert dark != before
    assert button.get_attribute("aria-pressed") == "true"
    opened.refresh()
    assert background() == dark  # remembered
    opened.find_element("id", "theme").click()
    assert background() == before


def test_the_system_may_ask_for_dark(opened):
    opened.execute_script("localStorage.clear()")
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        opened.refresh()
        colour = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(20, 24, 30)"
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        opened.refresh()


def test_without_javascript_everything_is_there(opened):
    opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened.refresh()
        panels = opened.find_elements("css selector", ".panel")
        assert all(panel.is_displayed() for panel in panels)
        assert not opened.find_element("id", "theme").is_displayed()
        assert opened.find_element("css selector", "#answer .lead").is_displayed()
    finally:
        opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        opened.refresh()


def test_printed_all_panels_are_shown(opened):
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        panels = opened.find_elements("css selector", "#classes .panel")
        assert all(panel.is_displayed() for panel in panels)
        assert not opened.find_element("css selector", "nav").is_displayed()
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.fixture(scope="module")
def attacked(browser, tmp_path_factory):
    """A report whose every name is hostile, opened and clicked through."""
    assert len(HOSTILE) >= 30
    methods = tuple(f"{name} {METHODS[i]}" for i, name in enumerate(HOSTILE[: len(METHODS)]))
    meta, records = study(
        len(HOSTILE), methods, classes=HOSTILE, datasets=(HOSTILE[1], HOSTILE[7]), n_test=300
    )
    for number, record in enumerate(records):
        record["reason"] = record["reason"] and HOSTILE[number % len(HOSTILE)]
        if record["details"]:
            record["details"]["warnings"] = [HOSTILE[number % len(HOSTILE)]]
    for number, method in enumerate(meta["methods"]):
        method["title"] = method["estimator"] = HOSTILE[number + 10]
    meta |= {"title": HOSTILE[2], "command": HOSTILE[4], "created": HOSTILE[8]}
    meta["versions"] = meta["machine"] = {name: name for name in HOSTILE[:12]}
    for data in meta["datasets"]:
        data |= {"source": HOSTILE[9], "about": HOSTILE[:20], "hash": HOSTILE[11]}
        data["findings"] = [{"code": name, "message": name} for name in HOSTILE]
    summary = report.summarise(meta, records)
    assert [s["failure"] for s in summary["sections"].values()] == [None] * len(report.SECTIONS)
    path = tmp_path_factory.mktemp("page") / "hostile.html"
    report.write(summary, path)
    console(browser), requests(browser)
    browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {
            "source": "window.called = []; for (const f of ['alert', 'confirm', 'prompt', 'open'])"
            "window[f] = (...a) => { called.push(f); };"
        },
    )
    browser.get(path.as_uri())
    browser.execute_script(
        "document.querySelectorAll('details').forEach(d => { d.open = true; });"
        "document.querySelectorAll('button:not(#save), summary').forEach(b => b.click());"
        "for (const e of document.querySelectorAll('*'))"
        "for (const n of ['mouseover', 'focus', 'blur', 'toggle'])"
        "e.dispatchEvent(new Event(n, {bubbles: true}));"
    )
    return browser


def test_hostile_names_call_nothing(attacked):
    assert attacked.execute_script("return window.called") == []
    assert attacked.execute_script("return document.scripts.length") == 2
    found = "img, iframe, object, form, input, math, video, base, body b, body style, template"
    assert attacked.find_elements("css selector", found) == []
    handlers = "return [...document.querySelectorAll('*')].flatMap(e => [...e.attributes])"
    assert attacked.execute_script(handlers + ".filter(a => /^on/i.test(a.name)).length") == 0


def test_hostile_names_ask_for_nothing(attacked):
    assert [m for m in console(attacked) if "clipboard" not in m] == []
    assert [url for url in requests(attacked) if not url.startswith(("file:", "data:"))] == []
    assert attacked.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert attacked.current_url.startswith("file:")


def test_hostile_names_are_shown_as_they_are(attacked):
    text = attacked.find_element("tag name", "main").get_attribute("textContent")
    assert "<script>alert(1)</script>" in text
    assert "{{constructor.constructor('alert(1)')()" in text
    assert "\u202e" not in text
    assert "x" * 400 not in text


def test_the_policy_forbids_what_the_page_does_not_bring(attacked):
    attacked.execute_script(
        "const s = document.createElement('script'); s.textContent = 'called.push(\"script\")';"
        "document.body.append(s);"
        "const d = document.createElement('div'); d.innerHTML ="
        "'<img src=x onerror=\"called.push(1)\"><img src=http://example.invalid/x.png>';"
        "document.body.append(d);"
    )
    assert attacked.execute_script("return window.called") == []
    refused = console(attacked)
    assert any("Content Security Policy" in message for message in refused)
    assert [url for url in requests(attacked) if url.startswith("http")] == []
