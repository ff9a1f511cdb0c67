"""The report in a real browser: headless Chromium, driven by Selenium.

Run with ``pytest -m browser``; CONTRIBUTING.md says what it needs. ``CAVITY_SCREENSHOTS=FOLDER``
keeps pictures of the whole page at desktop and phone width.
"""

from __future__ import annotations

import base64
import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from report_cases import blobs, posterior

from cavity.plotting import style
from cavity.posterior import Posterior
from cavity.report.html import write_report

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
DESKTOP, PHONE = 1280, 390


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver

    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in found.items() if path is None]
    assert not missing, f"not on the path: {missing}; CONTRIBUTING.md says how to install them"
    options = webdriver.ChromeOptions()
    options.binary_location = found["chromium"]
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    downloads = tmp_path_factory.mktemp("downloads")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(found["chromedriver"])
    driver = webdriver.Chrome(options=options, service=service)
    driver.downloads = downloads
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    X, truth = blobs(90, 4, 6)
    names = ["a name without a single space " * (i == 3) + f"bottle_{i}" for i in range(90)]
    p = posterior(
        truth, doubtful=(3, 4, 10, 11, 20), names=names, n_features=6, n_chains=4, n_draws=200
    )
    figure = style.page_figure(9, 3)
    figure.subplots().plot([1, 3, 2])
    return write_report(
        tmp_path_factory.mktemp("report") / "report.html",
        p,
        X,
        feature_names=["alcohol", "ash", "x" * 70, "hue", "<b>bold</b>", "proline"],
        title="Wine " + "with_a_very_long_title_" * 4,
        settings={"note": "y" * 200},
        extra_sections=[("A picture of its own", figure, "wider than a phone")],
    )


def visit(browser, path, width=DESKTOP):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(Path(path).as_uri())
    browser.execute_script("window.scrollTo(0, document.body.scrollHeight)")


def column(browser, table, position):
    script = (
        "return Array.from(document.getElementById(arguments[0]).tBodies[0].rows,"
        "row => row.cells[arguments[1]].dataset.number ?? row.cells[arguments[1]].textContent)"
    )
    return browser.execute_script(script, table, position)


def buttons(browser, table):
    return browser.find_elements("css selector", f"#{table} thead button")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_page_opens_without_a_complaint(browser, report, width):
    browser.get_log("browser")
    visit(browser, report, width)
    assert browser.get_log("browser") == []
    images = browser.execute_script(
        "return Array.from(document.images, i => [i.complete, i.naturalWidth, i.clientWidth])"
    )
    assert len(images) == 7
    for complete, natural, shown in images:
        assert complete
        assert natural > 0
        assert 0 < shown <= width


@pytest.mark.parametrize("width", [DESKTOP, 768, PHONE, 320])
def test_nothing_sticks_out_sideways(browser, report, width):
    visit(browser, report, width)
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    folder = os.environ.get("CAVITY_SCREENSHOTS")
    if folder:
        height = browser.execute_script("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = browser.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
        Path(folder, f"report-{width}.png").write_bytes(base64.b64decode(shot["data"]))


def test_phones_get_the_narrow_pictures(browser, report):
    script = "return Array.from(document.querySelectorAll('picture img'), i => i.naturalWidth)"
    visit(browser, report, DESKTOP)
    wide = browser.execute_script(script)
    visit(browser, report, PHONE)
    narrow = browser.execute_script(script)
    assert len(wide) == len(narrow) == 4
    assert all(a > b for a, b in zip(wide, narrow, strict=True))


def test_numbers_sort_as_numbers_both_ways(browser, report):
    visit(browser, report)
    for table, position in (("clusters", 1), ("clusters", 4), ("doubtful", 2), ("typical", 1)):
        head = buttons(browser, table)[position]
        before = sorted(map(float, column(browser, table, position)))
        head.click()
        assert list(map(float, column(browser, table, position))) == before
        assert _states(browser, table)[position] == "ascending"
        head.click()
        assert list(map(float, column(browser, table, position))) == before[::-1]
        assert _states(browser, table)[position] == "descending"
        assert _states(browser, table).count("none") == len(_states(browser, table)) - 1


def _states(browser, table):
    heads = browser.find_elements("css selector", f"#{table} thead th")
    return [head.get_attribute("aria-sort") for head in heads]


def test_names_sort_as_people_count(browser, report):
    visit(browser, report)
    buttons(browser, "doubtful")[0].click()
    names = column(browser, "doubtful", 0)
    assert [n for n in names if n.startswith("bottle")] == [
        "bottle_4",
        "bottle_10",
        "bottle_11",
        "bottle_20",
    ]


def test_rows_stay_whole_when_sorted(browser, report):
    visit(browser, report)
    rows = "return Array.from(document.querySelectorAll('#doubtful tbody tr'), r => r.textContent)"
    before = browser.execute_script(rows)
    buttons(browser, "doubtful")[3].click()
    after = browser.execute_script(rows)
    assert sorted(before) == sorted(after)


def test_sorting_works_from_the_keyboard(browser, report):
    visit(browser, report)
    head = buttons(browser, "clusters")[4]
    browser.execute_script("arguments[0].focus()", head)
    head.send_keys("\ue007")
    assert _states(browser, "clusters")[4] == "ascending"
    head.send_keys(" ")
    assert _states(browser, "clusters")[4] == "descending"


def test_gaps_come_last_in_both_directions(browser, report):
    visit(browser, report)
    script = "document.querySelector('#clusters tbody tr').cells[1].dataset.number = ''"
    browser.execute_script(script)
    head = buttons(browser, "clusters")[1]
    for _ in range(2):
        head.click()
        assert column(browser, "clusters", 1)[-1] == ""


def test_table_is_saved_as_csv(browser, report):
    from selenium.webdriver.support.ui import WebDriverWait

    visit(browser, report)
    browser.find_element("css selector", 'button[data-table="clusters"]').click()
    path = browser.downloads / "clusters.csv"
    WebDriverWait(browser, 10).until(lambda _: path.exists() and path.stat().st_size > 0)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('cluster,size,share,"size, 95% interval"')
    assert len(lines) == 5
    # Shares with all their digits, intervals as they are shown.
    row = dict(zip(*list(csv.reader(lines))[:2], strict=True))
    shown = browser.find_element("css selector", "#clusters tbody tr").find_elements(
        "tag name", "td"
    )
    assert row["size, 95% interval"] == shown[2].text
    assert float(row["share"]) == float(shown[1].get_attribute("data-number"))


def test_scripts_of_others_do_not_run(browser, report, tmp_path):
    """The page's policy stops them, and this harness notices a complaint in the console."""
    text = report.read_text(encoding="utf-8")
    path = tmp_path / "spoiled.html"
    path.write_text(text.replace("</main>", "<script>document.title = 'taken'</script></main>"))
    browser.get_log("browser")
    visit(browser, path)
    assert browser.title != "taken"
    log = browser.get_log("browser")
    assert any("Content Security Policy" in entry["message"] for entry in log)


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    """A report whose three clusters are two groups."""
    X, truth = blobs(60, 3, 2)
    near = np.eye(3)
    near[0, 1] = near[1, 0] = 0.9
    labels = truth[None, None].repeat(20, axis=1).repeat(2, axis=0)
    known = {"overlap": near[None].repeat(4, axis=0), "overlap_draws": np.arange(4) * 10}
    p = Posterior(labels, names=[f"bottle_{i}" for i in range(60)], summaries=known)
    return write_report(tmp_path_factory.mktemp("levels") / "report.html", p, X)


def hover(browser, area, place):
    """Put the pointer at shares of a picture's width and height; return what appears."""
    from selenium.webdriver import ActionChains

    image = area.find_element("css selector", "img")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", image)
    across = (place[0] - 0.5) * image.size["width"]
    down = (place[1] - 0.5) * image.size["height"]
    ActionChains(browser).move_to_element_with_offset(image, across, down).perform()
    return area.find_element("css selector", ".words-here").text


def test_a_point_shows_its_name_cluster_and_probability(browser, levels):
    visit(browser, levels)
    area = browser.find_elements("css selector", "[data-hover]")[0]
    found = json.loads(area.get_attribute("data-hover"))
    assert len(found["text"]) == 60
    for at in (0, 31, 59):
        text = found["text"][found["of"][at]]
        assert text.startswith("bottle_")
        assert "group" in text
        assert "(1.00)" in text
        shown = hover(browser, area, found["at"][at])
        # Points may lie upon each other.
        assert shown in found["text"]
    assert hover(browser, area, (0.999, 0.999)) == ""


def test_a_cell_of_the_matrix_shows_two_names_and_how_often_they_are_together(browser, levels):
    visit(browser, levels)
    area = next(
        area
        for area in browser.find_elements("css selector", "[data-hover]")
        if "matrix" in area.get_attribute("data-hover")
    )
    left, top, right, bottom = json.loads(area.get_attribute("data-hover"))["frame"]
    near = (left + 0.05 * (right - left), top + 0.15 * (bottom - top))
    far = (left + 0.05 * (right - left), top + 0.95 * (bottom - top))
    assert hover(browser, area, near).endswith("together: 1.00")
    assert hover(browser, area, far).endswith("together: 0.00")


def test_tabs_show_one_level_at_a_time_and_paper_shows_both(browser, levels):
    visit(browser, levels)
    heads = browser.find_elements("css selector", "[role=tab]")
    panels = browser.find_elements("css selector", ".tab")
    assert [head.text for head in heads] == ["Groups", "Clusters"]
    assert [panel.is_displayed() for panel in panels] == [True, False]
    heads[1].click()
    assert [panel.is_displayed() for panel in panels] == [False, True]
    heads[1].send_keys("\ue012")  # left
    assert [panel.is_displayed() for panel in panels] == [True, False]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert all(panel.is_displayed() for panel in panels)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_page_is_readable_without_its_script(browser, levels, tmp_path):
    page = tmp_path / "plain.html"
    text = levels.read_text(encoding="utf-8")
    page.write_text(text[: text.index("<script>")] + "</body></html>", encoding="utf-8")
    visit(browser, page)
    panels = browser.find_elements("css selector", ".tab")
    assert all(panel.is_displayed() for panel in panels)
    assert [panel.find_element("css selector", "h3").text for panel in panels] == [
        "Groups",
        "Clusters",
    ]


def test_long_tables_are_filtered(browser, tmp_path):
    _, truth = blobs(90, 4, 2)
    p = posterior(truth, doubtful=range(30), names=[f"bottle_{i:02d}" for i in range(90)])
    visit(browser, write_report(tmp_path / "report.html", p))
    box = browser.find_element("css selector", "#doubt-section .filter")
    box.send_keys("Bottle_0")
    rows = browser.find_elements("css selector", "#doubtful tbody tr")
    shown = [row.text for row in rows if row.is_displayed()]
    assert len(rows) > len(shown) == 10
    assert all(text.startswith("bottle_0") for text in shown)


def test_dark_page_has_light_letters(browser, levels):
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    visit(browser, levels)
    style_of = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    ink, paper = (
        sum(map(int, text.removeprefix("rgb(").removesuffix(")").split(",")))
        for text in browser.execute_script(style_of)
    )
    assert ink > 600
    assert paper < 150
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
