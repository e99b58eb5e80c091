"""The address of a report: what is listed and open can be sent as a link, and Back works."""

from surecall.eval.storage.trial import Trial
from tests.support.browser import Browser
from tests.support.viewed import Made, address_of


def choose(browser: Browser, kind: str, value: str) -> None:
    browser.run(
        "const select = document.getElementById('filters').elements[arguments[0]];"
        "select.value = arguments[1]; select.dispatchEvent(new Event('input', {bubbles: true}))",
        kind,
        value,
    )


def listed(browser: Browser) -> list[str]:
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('#list .rows a')].map((a) => a.getAttribute('href'))"
    )
    return found


def is_at(browser: Browser, end: str) -> None:
    browser.wait("decodeURIComponent(location.hash) === arguments[0]", end)


def worst(made: Made) -> Trial:
    return max(made.failed(), key=lambda each: each.elapsed_ms)


def test_filters_and_order_are_in_the_address_and_back_undoes_them(
    browser: Browser, made: Made
) -> None:
    choose(browser, "status", "failed")
    is_at(browser, "#runs?status=failed")
    browser.click("#list .head .time button")
    is_at(browser, "#runs?status=failed&sort=-time")
    times = [trial.elapsed_ms for trial in made.failed()]
    assert listed(browser)[0] == address_of(worst(made))
    assert browser.text("#shown") == f"{len(times)} of {len(made.trials)} runs."
    browser.click("#list .rows a")
    browser.wait("document.querySelector('#wire dl') !== null")
    browser.back()
    is_at(browser, "#runs?status=failed&sort=-time")
    assert listed(browser)[0] == address_of(worst(made))
    browser.back()
    is_at(browser, "#runs?status=failed")
    browser.back()
    browser.wait(
        "document.getElementById('shown').textContent === arguments[0]", f"{len(made.trials)} runs."
    )


def test_a_filtered_list_opens_from_its_address_in_a_fresh_tab(
    browser: Browser, made: Made
) -> None:
    choose(browser, "model", worst(made).key.cell.model)
    browser.click("#list .head .tokens button")
    browser.wait("location.hash.endsWith('sort=-tokens')")
    address, shown, first = browser.address, browser.text("#shown"), listed(browser)
    browser.open("about:blank")
    browser.open(address)

    assert (browser.text("#shown"), listed(browser)) == (shown, first)
    assert browser.run("return document.querySelector('[aria-sort]').textContent") == "Tokens"
    assert browser.run("return document.querySelector('#runs').getBoundingClientRect().top") < 200


def test_a_search_is_in_the_address_too_but_its_letters_are_no_steps_back(
    browser: Browser, made: Made
) -> None:
    choose(browser, "status", "passed")
    is_at(browser, "#runs?status=passed")
    browser.press("/")
    browser.wait("document.activeElement.name === 'text'")
    browser.press("clean")
    is_at(browser, "#runs?status=passed&text=clean")
    browser.back()
    browser.wait(
        "document.getElementById('shown').textContent === arguments[0]", f"{len(made.trials)} runs."
    )


def test_from_a_run_the_way_back_leads_to_the_list_it_came_from(
    browser: Browser, made: Made
) -> None:
    choose(browser, "status", "failed")
    is_at(browser, "#runs?status=failed")
    browser.press("n")
    browser.wait("location.hash.startsWith('#run/')")
    browser.press("\ue00c")
    is_at(browser, "#runs?status=failed")

    assert browser.text("#shown") == f"{len(made.failed())} of {len(made.trials)} runs."


def test_a_list_of_a_name_that_is_not_there_is_empty_and_says_so(
    blank: Browser, made: Made
) -> None:
    blank.open(made.page.as_uri() + "#runs?model=nobody&sort=nothing&else=1&code=%E0%A4%A")

    assert blank.text("#shown") == f"0 of {len(made.trials)} runs."
    assert "No run matches." in blank.text("#list")
    assert blank.run("return document.getElementById('filters').elements.model.value") == "nobody"


def test_names_are_sorted_by_their_characters(browser: Browser, made: Made) -> None:
    browser.click("#list .head .model button")
    browser.wait("location.hash.endsWith('sort=-model')")
    browser.click("#list .head .model button")
    browser.wait("location.hash.endsWith('sort=model')")
    first = min(trial.key.cell.model for trial in made.trials)
    assert browser.texts("#list .rows .model")[0] == first
    browser.click("#list .head .model button")
    is_at(browser, "#runs")
