// What every page of the site does besides being read: light or dark, the menu of a narrow window, copying code, the search.
(() => {
    const page = document.documentElement;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const narrow = matchMedia("(max-width: 767px)");
    const withoutRoomBeside = matchMedia("(max-width: 1499px)");

    // A choice is kept only while it differs from the system's.
    const stored = name => { try { return localStorage.getItem(name); } catch { return null; } };
    const store = (name, value) => { try { if (value) localStorage.setItem(name, value); else localStorage.removeItem(name); } catch {} };
    const isDark = () => (stored("theme") ?? (dark.matches ? "dark" : "light")) === "dark";
    const applyTheme = () => {
        page.classList.toggle("dark-mode", isDark());
        page.classList.toggle("light-mode", !isDark());
    };
    applyTheme();
    dark.addEventListener("change", applyTheme);

    const element = (name, properties = {}, ...inside) => {
        const made = Object.assign(document.createElement(name), properties);
        made.append(...inside);
        return made;
    };

    function offerTheme() {
        const button = document.getElementById("theme");
        button.hidden = false;
        button.onclick = () => {
            const wanted = isDark() ? "light" : "dark";
            store("theme", (wanted === "dark") === dark.matches ? null : wanted);
            applyTheme();
        };
    }

    function foldMenu() {
        const menu = document.querySelector("nav.book"), button = document.getElementById("menu");
        const show = open => { menu.classList.toggle("folded", !open); button.setAttribute("aria-expanded", open); };
        button.hidden = false;
        button.onclick = () => show(menu.classList.contains("folded"));
        const fit = () => show(!narrow.matches);
        narrow.addEventListener("change", fit);
        fit();
        const here = menu.querySelector("[aria-current]");
        if (here && !narrow.matches) menu.scrollTop = here.offsetTop - menu.clientHeight / 2;
    }

    function foldContents() {
        const contents = document.querySelector("nav.here > details");
        if (!contents) return;
        const fit = () => { contents.open = !withoutRoomBeside.matches; };
        withoutRoomBeside.addEventListener("change", fit);
        fit();
        const links = [...contents.querySelectorAll("a")];
        const headings = links.map(link => document.getElementById(decodeURIComponent(link.hash.slice(1))));
        const mark = () => {
            const last = headings.findLastIndex(heading => heading && heading.getBoundingClientRect().top < 60);
            links.forEach((link, i) => link.toggleAttribute("data-active", i === Math.max(last, 0)));
        };
        addEventListener("scroll", mark, { passive: true });
        mark();
    }

    function offerCopies() {
        if (!navigator.clipboard) return;
        for (const fragment of document.querySelectorAll(".textblock .fragment")) {
            const button = element("button", { className: "copy", type: "button", textContent: "Copy", title: "Copy this code" });
            button.onclick = async () => {
                const lines = [...fragment.querySelectorAll(".line")].map(line => line.textContent.replace(/\n$/, ""));
                await navigator.clipboard.writeText(lines.length ? lines.join("\n") : fragment.textContent);
                button.textContent = "Copied";
                setTimeout(() => { button.textContent = "Copy"; }, 1200);
            };
            const box = element("div", { className: "code" });
            fragment.replaceWith(box);
            box.append(fragment, button);
        }
    }

    // A run weighs as much as a chapter. Browsers that load frames lazily begin some screens too early.
    function loadRunsWhenNear() {
        const near = new IntersectionObserver(entries => entries.filter(e => e.isIntersecting).forEach(({ target }) => {
            target.src = target.dataset.src;
            near.unobserve(target);
        }), { rootMargin: "300px" });
        document.querySelectorAll("iframe.trace").forEach(frame => near.observe(frame));
    }

    // A reader without a mouse scrolls with the arrow keys, once the box can have the focus.
    function letScrollersHaveFocus() {
        for (const box of document.querySelectorAll(".fragment, table.markdownTable, table.markdownTable > tbody, p.formulaDsp, .dyncontent, .dyncontent > .center")) {
            if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
            else box.removeAttribute("tabindex");
        }
    }

    addEventListener("DOMContentLoaded", () => {
        offerTheme();
        foldMenu();
        foldContents();
        offerCopies();
        loadRunsWhenNear();
        letScrollersHaveFocus();
        addEventListener("resize", letScrollersHaveFocus);
        document.querySelectorAll("details").forEach(e => e.addEventListener("toggle", letScrollersHaveFocus));
        offerSearch();
    });

    // --- the search: Lunr and its index are loaded when somebody first turns to it ----------------------------------

    function offerSearch() {
        const field = document.getElementById("query"), found = document.getElementById("found");
        const count = document.getElementById("count"), panel = document.getElementById("results");
        document.querySelector("[role=search]").hidden = false;
        let loading = null, index = null;

        const script = src => new Promise((done, failed) => document.head.append(element("script", { src, onload: done, onerror: failed })));
        const load = () => loading ??= script("search/lunr.min.js").then(() => script("search/index.js")).then(() => {
            lunr.tokenizer.separator = /[\s\-:]+/;
            index = lunr.Index.load(searchData.index);
        });

        const close = () => { panel.hidden = true; };
        const show = () => {
            const words = field.value.trim();
            if (!index || !words) return close();
            const whole = search(index, words, lunr.Query.presence.REQUIRED);
            const results = whole.length ? whole : search(index, words, lunr.Query.presence.OPTIONAL);
            const places = `${results.length} ${results.length === 1 ? "place" : "places"}`;
            count.textContent = whole.length ? places : results.length ? `No place has all of these words, ${places} some of them` : "Nothing found";
            found.replaceChildren(...results.slice(0, 30).map(result => item(result, words)));
            panel.hidden = false;
            panel.scrollTop = 0;
        };

        field.addEventListener("focus", load);
        field.addEventListener("input", () => load().then(show));
        addEventListener("keydown", event => {
            const links = [...found.querySelectorAll("a")], at = links.indexOf(document.activeElement);
            if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
                if (narrow.matches) document.getElementById("menu").ariaExpanded === "true" || document.getElementById("menu").click();
                field.focus();
                field.select();
            } else if (event.key === "Escape" && !panel.hidden) {
                close();
                field.focus();
            } else if (event.key === "ArrowDown" && panel.hidden && document.activeElement === field) {
                load().then(show);
            } else if (!panel.hidden && (at >= 0 || document.activeElement === field) && links.length) {
                if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)].focus();
                else if (event.key === "ArrowUp") (at > 0 ? links[at - 1] : field).focus();
                else if (event.key === "Enter" && at < 0) links[0].click();
                else return;
            } else {
                return;
            }
            event.preventDefault();
        });
        found.addEventListener("click", close);
        addEventListener("click", event => { if (!panel.contains(event.target) && event.target !== field) close(); });
    }

    // For a word counts one that begins like it or like its stem: "conflicts" finds "conflict", "occupan" finds "occupancy".
    function search(index, words, presence) {
        const terms = lunr.tokenizer(words).map(String).filter(term => lunr.stopWordFilter(term));
        if (!terms.length) return [];
        return index.query(query => terms.forEach(term => {
            const stem = lunr.stemmer(new lunr.Token(term)).toString();
            query.term(term.startsWith(stem) ? stem : term, { presence, wildcard: lunr.Query.wildcard.TRAILING });
            query.term(term, { boost: 5 });
        }));
    }

    function item(result, words) {
        const { url, page, heading, text } = searchData.places[result.ref];
        const link = element("a", { href: url }, ...marked(heading, words));
        const parts = [link];
        if (page !== heading) parts.push(element("span", { className: "page" }, page));
        if (text) parts.push(element("span", { className: "excerpt" }, ...marked(excerpt(text, words), words)));
        return element("li", {}, ...parts);
    }

    const pattern = words => new RegExp(`(${words.match(/[\p{L}\p{N}_]+/gu).join("|")})`, "iu");

    function excerpt(text, words) {
        const first = Math.max(text.search(pattern(words)), 0), begin = Math.max(text.lastIndexOf(" ", Math.max(first - 60, 0)), 0);
        return (begin ? "… " : "") + text.slice(begin, begin + 170).trim() + (text.length > begin + 170 ? " …" : "");
    }

    function marked(text, words) {
        return text.split(pattern(words)).map((part, i) => i % 2 ? element("mark", {}, part) : part);
    }
})();
