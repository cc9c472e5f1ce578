"""The page for people, in a real browser."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.servers import Server

pytestmark = pytest.mark.process
WAIT_S = 120


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs Chromium and its driver (Debian: chromium, chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--force-color-profile=srgb",
    ):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def test_the_page_compares_and_searches(browser: Any, server: Server) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    def wait(selector: str) -> Any:
        return WebDriverWait(browser, WAIT_S).until(lambda b: b.find_elements(By.CSS_SELECTOR, selector))

    def width_fits() -> bool:
        page_width = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        return bool(browser.execute_script(page_width))

    browser.set_window_size(1280, 900)
    browser.get(server.url)
    browser.find_element(By.ID, "a").send_keys(Keys.ENTER)  # the keyboard is enough
    assert len(wait("#compared .tree svg")) == 2
    assert wait("#compared .differs")
    assert "do not say the same" in browser.find_element(By.ID, "compared").text
    assert len(wait("#compared .measure")) == 3
    buttons = browser.find_elements(By.CSS_SELECTOR, "#examples button")
    assert [button.text for button in buttons] == ["swap", "passive", "opposite", "negation", "number"]
    buttons[2].click()
    WebDriverWait(browser, WAIT_S).until(
        lambda b: "enable | disable" in b.find_element(By.ID, "compared").text
    )
    browser.find_element(By.ID, "query").send_keys(Keys.ENTER)
    rows = wait("#found li")
    assert rows[0].text.endswith("To enable 2FA, open the settings and choose Security. the answer")
    assert "left out: opposite" in browser.find_element(By.ID, "found").text
    assert width_fits()
    browser.set_window_size(400, 900)
    assert width_fits()
    for name in ("a", "b", "text", "query"):  # every field has a label, for screen readers
        assert browser.find_element(By.CSS_SELECTOR, f"label[for={name}]").text
    assert not browser.get_log("browser")
