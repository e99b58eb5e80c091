"""Recognizes texts that announce work instead of being an answer.

    Let me read the file:            it ends with a colon, and nothing follows
    I'll add a question...           the last sentence says what comes next
    Good. One moment please.         the last sentence asks to wait
    I will look. </tool_call>        the closing tag of a call that is not there
    court court court court court    one word, repeated
    - [x] read  - [ ] write          a plan that ends with an open step

Form is checked first, in any language. Only then is the last sentence compared with phrases in
eleven languages. A sentence that asks the user for something, sets a condition, or refuses is never
an announcement. A text takes time in proportion to its end only, except to count its words.
"""

import itertools
from typing import Final

# ruff: noqa: RUF001 (models write these characters)

# How much of the end of a text is compared with phrases.
_MAX_TAIL: Final = 600
_MAX_SENTENCES: Final = 2
# A text is one repeated word only if it has this many words, at most so long.
_MIN_REPEATS: Final = 5
_MAX_REPEATED: Final = 40
# A bare statement in Japanese counts only if there is nothing else in the text.
_MAX_SHORT: Final = 60
_FENCE: Final = "```"
_COLONS: Final = (":", "：")
_ELLIPSES: Final = ("...", "…", "...」")
_QUESTION_MARKS: Final = ("?", "？", "؟")
_SENTENCE_ENDS: Final = frozenset(".!?。！？…；;\n")
_WIDE_ENDS: Final = frozenset("。！？…；\n")
_DECORATION: Final = "*_`~ \t\r\n"
_LIST_MARKS: Final = "#->*_`~•–—0123456789.)( \t\"'“”«»✅🔍🔧👍🚀"
_CALL_TAG_WORDS: Final = ("tool", "function", "invoke", "call", "param", "arg_", "action")
_NO_TAG_CHARS: Final = frozenset("<>]-'\"/= ")
_DONE_ITEMS: Final = ("- [x]", "* [x]", "[x]", "☑", "✅", "✔")
_OPEN_ITEMS: Final = ("- [ ]", "* [ ]", "[ ]", "☐", "⬜", "⏳", "🔄")


def announcement_in(text: str, context: str = "") -> str:
    """Return why a text announces work and is no answer; blank if it may be one.

    `context` is the user's text: what it contains may be repeated on purpose.
    """
    tail = text[-_MAX_TAIL:].rstrip()
    line = tail[tail.rfind("\n") + 1 :].strip()
    if not line or line[0] in ">|":
        return ""
    if _FENCE in text and (line.startswith(_FENCE) or text.count(_FENCE) % 2):
        is_opener = line.startswith(_FENCE) and text.count(_FENCE) == 1
        return "it opens a code block and ends" if is_opener else ""
    return (
        _orphaned_tag(line, text)
        or _repeated_word(text, context)
        or _open_plan(line, text)
        or _colon_at_end(line)
        or _announcing_sentence(tail, is_short=len(text.strip()) <= _MAX_SHORT)
    )


def _orphaned_tag(line: str, text: str) -> str:
    """Return the closing tag of a call at the end, without its opener."""
    at = line.rfind("</")
    name = line[at + 2 : -1] if at >= 0 and line.endswith(">") else ""
    if not any(word in name.casefold() for word in _CALL_TAG_WORDS) or set(name) & _NO_TAG_CHARS:
        return ""
    # Inside backticks or quotation marks, the tag is what the answer is about.
    is_open = f"<{name}" in text or line.count("`") or line[at - 1 : at] in {'"', "'"}
    return "" if is_open else f"it ends with </{name[:_MAX_REPEATED]}> but contains no call"


def _repeated_word(text: str, context: str) -> str:
    """Return that a text consists of one word, which the user did not write; numbers may repeat."""
    first = text[: 2 * _MAX_REPEATED].split(None, 1)[0].casefold()
    if len(first) > _MAX_REPEATED or not any(map(str.isalpha, first)):
        return ""
    # The end is cheap to compare and rules out nearly every answer.
    if text[-2 * _MAX_REPEATED :].rsplit(maxsplit=1)[-1].casefold() != first:
        return ""
    words = text.casefold().split()
    is_one_word = len(words) >= _MIN_REPEATS and set(words) == {first}
    return f"it only repeats {first!r}" if is_one_word and first not in context.casefold() else ""


def _open_plan(line: str, text: str) -> str:
    """Return that a text ends with an open step of a plan that was begun."""
    if not line.startswith(_OPEN_ITEMS):
        return ""
    lines = text[-4 * _MAX_TAIL :].splitlines()
    is_begun = any(each.strip().casefold().startswith(_DONE_ITEMS) for each in lines)
    return "its plan has open steps" if is_begun else ""


def _colon_at_end(line: str) -> str:
    """Return that a text ends with a colon; `:smile:` is no such end."""
    bare = line.rstrip(_DECORATION)
    if not bare.endswith(_COLONS) or len(bare) == 1:
        return ""
    last = bare.split()[-1]
    is_emoji = last.startswith(":") and last.count(":") == 2  # noqa: PLR2004
    return "" if is_emoji else "it ends with a colon, and nothing follows"


def _announcing_sentence(tail: str, *, is_short: bool) -> str:
    """Return that the last sentence announces work, or asks to wait for it."""
    newest, *before = _last_sentences(tail) or [""]
    folded = _fold(newest)
    if folded.endswith(_QUESTION_MARKS):
        return ""
    is_whole = newest.lstrip(_LIST_MARKS)[:1].isupper()
    is_gerund = is_whole and any(map(_is_gerund_phrase, (folded, _after_filler(folded))))
    if not (is_gerund or _asks_to_wait(folded) or _is_announcing(folded, is_short=is_short)):
        return ""
    # Few sentences get here, and there are many such words.
    if _is_conditional(folded):
        return ""
    # The work may depend on what the sentence before asks the user for.
    if before and _is_request(before[0]):
        return ""
    return f"it ends with {newest.strip()[:_MAX_SHORT]!r}, and nothing follows"


def _is_request(sentence: str) -> bool:
    folded = _fold(sentence)
    return (
        folded.endswith(_QUESTION_MARKS)
        or folded.startswith(_REQUEST_STARTS)
        or (any(words in folded for words in _WIDE_REQUESTS) and not _asks_to_wait(folded))
    )


def _last_sentences(tail: str) -> list[str]:
    """Return the last sentences, newest first. A period within a word ends no sentence."""
    sentences: list[str] = []
    end = len(tail)
    at = end - 1
    while at >= 0 and tail[at] in _SENTENCE_ENDS:
        at -= 1
    while at >= 0 and len(sentences) < _MAX_SENTENCES:
        char = tail[at]
        if char in _WIDE_ENDS or (char in _SENTENCE_ENDS and tail[at + 1 : at + 2].isspace()):
            if tail[at + 1 : end].strip(_LIST_MARKS + ".!?。！？…"):
                sentences.append(tail[at + 1 : end])
            end = at + 1
        at -= 1
    return [*sentences, tail[:end]] if end and at < 0 else sentences


def _fold(sentence: str) -> str:
    """Return a sentence in lower case, with plain apostrophes, without list marks in front."""
    plain = sentence.casefold().replace("’", "'").replace("\xa0", " ").replace("\u202f", " ")
    return " ".join(plain.lstrip(_LIST_MARKS).rstrip(_DECORATION).split())


def _is_conditional(folded: str) -> bool:
    """Whether a sentence asks for something, sets a condition, or refuses."""
    if not folded.isascii() and any(words in folded for words in _WIDE_VETOES):
        return not any(words in folded for words in _WAITS)
    padded = f" {folded}"
    clauses = padded.replace(",", ", ").split(",")
    vetoes = _ASCII_VETOES if padded.isascii() else _VETOES
    return any(words in padded for words in vetoes) or any(
        clause.lstrip().startswith(_VETO_STARTS) for clause in clauses
    )


def _asks_to_wait(folded: str) -> bool:
    is_wide = not folded.isascii()
    return folded.startswith(_WAIT_STARTS) or (is_wide and any(each in folded for each in _WAITS))


def _is_announcing(folded: str, *, is_short: bool) -> bool:
    """Whether a sentence says what its speaker does next."""
    words = folded.rstrip(".!。！…: ")
    if not words.isascii():
        if any("\u3040" <= char <= "\u30ff" for char in words):
            return _is_japanese_announcement(words, is_short=is_short)
        if any("\uac00" <= char <= "\ud7a3" for char in words):
            return _is_korean_announcement(words)
        if any("\u4e00" <= char <= "\u9fff" for char in words):
            return _is_chinese_announcement(words)
    is_open = folded.endswith(_ELLIPSES) or " now" in words
    is_ongoing = is_open and not any(f" {verb} " in folded for verb in _FINITE_VERBS)
    clauses = words.replace(";", ",").replace(":", ",").replace(" – ", ",").replace(" — ", ",")
    return any(_is_announcing_clause(each, is_ongoing=is_ongoing) for each in clauses.split(","))


def _is_announcing_clause(clause: str, *, is_ongoing: bool) -> bool:
    words = clause.split()
    while words and words[0].strip(".!") in _FILLERS:
        del words[0]
    if not words:
        return False
    rest = " ".join(words) + " "
    if rest.startswith(_MODALS):
        return _follows_with_work(rest)
    if rest.startswith(_STARTS) or _is_german_present(words):
        return True
    if rest.startswith(("i'm ", "i am ")):
        verb = rest.removeprefix("i'm ").removeprefix("i am ").split()[0]
        return verb.endswith("ing") and verb not in _NO_WORK
    return _begins_with_verb(words, is_ongoing=is_ongoing) or any(
        word in _RUSSIAN_VERBS for word in words[:6]
    )


def _begins_with_verb(words: list[str], *, is_ongoing: bool) -> bool:
    """Whether a clause begins with a verb in the future tense, or one of ongoing work."""
    first, second = (*words, "")[:2]
    if first in _PROGRESSIVES:
        return second.endswith(_GERUND_ENDINGS)
    if first.endswith(_FUTURE_ENDINGS):
        return len(first) > 4 and first not in _NO_FUTURE  # noqa: PLR2004
    return is_ongoing and first not in _NO_GERUNDS and first.endswith(_GERUND_ENDINGS)


def _after_filler(folded: str) -> str:
    """Return what follows a word such as "Alright," at the beginning of a sentence."""
    first, comma, rest = folded.partition(", ")
    return rest if comma and first in _FILLERS else ""


def _is_gerund_phrase(folded: str) -> bool:
    """Whether a sentence has only a gerund, as in "Running the tests", and no verb of its own."""
    first, *rest = folded.rstrip(".!").split()[:2] or [""]
    if first.removeprefix("re-") not in _GERUNDS or not rest or rest[0] not in _DETERMINERS:
        return False
    if any(f"ed {word} " in folded for word in ("the", "a", "an", "it", "all", "your")):
        return False
    return not any(f" {verb} " in folded for verb in _FINITE_VERBS)


def _follows_with_work(rest: str) -> bool:
    """Whether "I will" and the like is followed by work, not by a state or a promise."""
    modal = next(each for each in _MODALS if rest.startswith(each))
    words = rest[len(modal) :].split()
    while words and words[0] in _ADVERBS:
        del words[0]
    return bool(words) and words[0] not in _NO_WORK


def _is_german_present(words: list[str]) -> bool:
    """Whether "ich" and a verb of work stand side by side."""
    if "ich" not in words:
        return False
    pairs = itertools.pairwise(words)
    return any(
        (one == "ich" and other in _GERMAN_VERBS) or (other == "ich" and one in _GERMAN_VERBS)
        for one, other in pairs
    )


def _is_chinese_announcement(words: str) -> bool:
    clauses = words.replace(",", "，").split("，")
    if any(each.lstrip().startswith(_CHINESE_STARTS) for each in clauses):
        return True
    return any(cue in words for cue in _CHINESE_CUES)


def _is_japanese_announcement(words: str, *, is_short: bool) -> bool:
    if words.endswith(_JAPANESE_ONGOING):
        return is_short and "は" not in words
    if not words.endswith(_JAPANESE_ENDS):
        return False
    if words.endswith(_JAPANESE_STATES):
        return False
    if words.endswith(_JAPANESE_STRONG_ENDS) or words.startswith(_JAPANESE_STARTS):
        return True
    return is_short and "は" not in words


def _is_korean_announcement(words: str) -> bool:
    if words.endswith(_KOREAN_STATES):
        return False
    return words.endswith((*_KOREAN_ENDS, *_KOREAN_ONGOING))


# Words before the first word that counts.
_FILLERS: Final = frozenset(
    {
        *("enseguida", "ok", "okay", "alright", "right", "sure", "certainly", "great", "good"),
        *("perfect", "excellent", "understood", "so", "now", "first", "next", "then", "and", "but"),
        *("finally", "also", "got", "it", "yes", "absolutely", "thanks", "well", "here's", "hmm"),
        *("gut", "alles", "klar", "jetzt", "nun", "zuerst", "zunächst", "danach", "dann", "als"),
        *("erstes", "nächstes", "nächster", "und", "schritt", "im", "nächsten", "ersten"),
        *("d'accord", "bien", "maintenant", "ensuite", "puis", "d'abord", "alors", "très", "tout"),
        *("à", "l'étape", "suivante", "et", "premièrement", "enfin", "parfait", "ahora", "primero"),
        *("luego", "después", "entonces", "perfecto", "vale", "y", "a", "continuación", "en", "el"),
        *("siguiente", "paso", "agora", "primeiro", "depois", "então", "certo", "em", "seguida"),
        *("no", "próximo", "passo", "perfeito", "e", "lo", "ora", "adesso", "prima", "poi", "per"),
        *("cosa", "nel", "prossimo", "va", "bene", "il", "subito", "perfetto", "quindi", "хорошо"),
        *("теперь", "сначала", "сейчас", "далее", "затем", "на", "следующем", "шаге", "я", "итак"),
        *("отлично", "понял", "да", "и", "onto", "mismo", "já"),
    }
)
_MODALS: Final = (
    *("i'll need to ", "i will need to ", "i'll ", "i will ", "i'm going to ", "i am going to "),
    *("i need to ", "i'm about to ", "let me ", "let's ", "let us ", "i shall ", "i must "),
    *("so i'll ", "so i will ", "so let me ", "going to ", "i can now ", "time to "),
    *("i should now ", "i should check ", "i have to ", "i first need to ", "i still need to "),
)
_ADVERBS: Final = frozenset(
    {
        *("now", "first", "also", "just", "quickly", "then", "next", "still", "immediately"),
        *("briefly", "carefully", "actually"),
    }
)
# After "I will": a state, a promise, or something that the answer itself does.
_NO_WORK: Final = frozenset(
    {
        *("hoping", "assuming", "being", "having", "thinking", "feeling", "wondering", "looking"),
        *("learning", "getting", "telling", "asking", "talking", "happy", "using", "working"),
        *("missing", "be", "put", "need", "not", "never", "remember", "remind", "keep", "wait"),
        *("leave", "let", "assume", "stop", "stay", "know", "always", "explain", "have", "ask"),
        *("note", "point", "inform", "mention", "clarify", "summarize", "say", "tell", "give"),
        *("show", "answer", "describe", "admit", "stress", "emphasize", "believe", "think"),
        *("understand", "rephrase", "repeat", "respond", "reply", "stand", "ship", "only", "no"),
        *("pass", "gladly", "happily", "of", "require", "depend", "recommend", "suggest", "talk"),
        "add,",
    }
)
_STARTS: Final = (
    # English
    *(
        *("passons ", "je prépare ", "je jette ", "je termine ", "pasemos ", "preparo ", "miro "),
        *("lo miro ", "lo reviso ", "passemos ", "passiamo ", "do un'occhiata ", "ci penso io "),
        *("mal sehen ", "mal schauen ", "now the ", "now onto ", "i'm on it ", "je m'en charge "),
        *("on it ", "working on it ", "hold on "),
    ),
    *("looking into ", "i'm looking ", "i'm checking ", "i'm searching ", "i'm fetching "),
    *("i'm reading ", "i'm running ", "i am checking ", "i am searching ", "i am looking "),
    *("i'm now ", "i am now "),
    # German
    *("ich werde ", "lass mich ", "lassen sie mich ", "lassen wir ", "werde ich ", "schauen wir "),
    *("sehen wir ", "suche läuft ", "weiter mit ", "lass uns "),
    # French
    *("je vais ", "laissez-moi ", "laisse-moi ", "permettez-moi ", "permets-moi ", "voyons "),
    *("regardons ", "vérifions ", "je vérifie ", "je recherche ", "je cherche ", "je lis "),
    *("je lance ", "je commence ", "je passe ", "je corrige ", "j'ouvre ", "je mets "),
    *("j'appelle ", "je récupère ", "j'ajoute ", "je crée ", "je supprime ", "je réserve "),
    *("je consulte ", "j'exécute ", "j'envoie ", "je procède ", "j'installe ", "j'analyse "),
    *("je m'occupe ", "je m'en occupe ", "je regarde ", "je modifie ", "je télécharge "),
    *("je continue ", "recherche en cours ", "chargement ", "allons "),
    # Spanish
    *("voy a ", "déjame ", "déjeme ", "permíteme ", "permítame ", "vamos a ", "veamos "),
    *("procedo ", "leo ", "abro ", "ejecuto ", "actualizo ", "obtengo ", "consulto ", "reviso "),
    *("busco ", "compruebo ", "corrijo ", "añado ", "llamo ", "envío ", "reservo ", "elimino "),
    *("modifico ", "me encargo ", "estoy buscando ", "estoy consultando ", "estoy revisando "),
    *("verifico ", "estoy verificando ", "estoy comprobando ", "estoy obteniendo "),
    *("estoy procesando ", "empiezo ", "continúo ", "instalo ", "analizo "),
    # Portuguese
    *("vou ", "deixe-me ", "deixa-me ", "deixa eu ", "permita-me ", "vamos ver ", "vejamos "),
    *("vamos verificar ", "irei ", "leio ", "atualizo ", "estou verificando "),
    *("estou procurando ", "estou consultando ", "estou buscando ", "estou a ", "procuro "),
    *("executo ", "corrijo "),
    # Italian
    *("fammi ", "mi faccia ", "lasciami ", "mi lasci ", "vediamo ", "guardiamo ", "vado a "),
    *("vado ad ", "sto cercando ", "sto verificando ", "sto controllando ", "sto recuperando "),
    *("sto leggendo ", "controllo ", "eseguo ", "creo subito ", "creo ora ", "passo a "),
    *("passo al ", "leggo ", "correggo ", "recupero ", "aggiorno ", "apro ", "invio ", "avvio "),
    *("chiamo ", "cerco ", "aggiungo ", "prenoto ", "cancello ", "scarico ", "analizzo "),
    *("modifico ", "mi occupo ", "inizio ", "comincio ", "ricerca in corso ", "creo il "),
    *("creo la ", "creo l'", "passo alla ", "procedo con ", "installo "),
    # Russian
    *("давайте ", "давай я ", "позвольте ", "дайте мне ", "посмотрим ", "займусь ", "приступаю "),
)
_FUTURE_ENDINGS: Final = ("aré", "eré", "iré", "arei", "erei", "irei", "arò", "erò", "irò")
_NO_FUTURE: Final = frozenset(
    {
        *("estaré", "seré", "tendré", "podré", "querré", "recordaré", "esperaré", "estarei"),
        *("serei", "terei", "poderei", "lembrarei", "esperarei", "sarò", "starò", "avrò", "potrò"),
        *("ricorderò", "aspetterò"),
    }
)
_GERUND_ENDINGS: Final = ("ing", "ando", "endo", "indo", "iendo")
_PROGRESSIVES: Final = frozenset({"sto", "estou", "estoy"})
_NO_GERUNDS: Final = frozenset(
    {"everything", "nothing", "something", "anything", "during", "thing", "bring", "being"}
)
_GERUNDS: Final = frozenset(
    {
        *("reading", "checking", "running", "launching", "fetching", "searching", "looking"),
        *("querying", "creating", "updating", "sending", "booking", "opening", "fixing", "calling"),
        *("loading", "retrieving", "starting", "writing", "testing", "building", "installing"),
        *("scanning", "verifying", "applying", "editing", "deleting", "adding", "proceeding"),
        *("executing", "generating", "preparing", "using", "moving", "connecting", "continuing"),
    }
)
_DETERMINERS: Final = frozenset(
    {
        *("the", "with", "step", "your", "for", "all", "it", "them", "that", "this", "these"),
        *("those", "a", "an", "each", "every", "both", "on", "up", "into", "through", "to"),
        "again",
    }
)
_FINITE_VERBS: Final = (
    *("is", "are", "was", "were", "will", "can", "may", "must", "should", "has", "have", "does"),
    *("usually", "requires", "takes", "makes", "means", "returns", "helps", "needs", "works", "to"),
)
_GERMAN_VERBS: Final = frozenset(
    {
        *("gehe", "sehe", "prüfe", "suche", "lese", "öffne", "rufe", "führe", "lege", "erstelle"),
        *("korrigiere", "schaue", "hole", "starte", "füge", "buche", "kümmere", "lösche"),
        *("aktualisiere", "installiere", "beginne", "ändere", "schreibe", "sende", "frage", "lade"),
        *("teste", "behebe", "analysiere", "untersuche", "passe", "überprüfe", "durchsuche"),
        *("ermittle", "bearbeite", "fahre", "verwende", "nutze", "werde", "repariere", "speichere"),
        *("liste", "reserviere", "verschicke", "wechsle", "setze", "kopiere", "verschiebe"),
    }
)
_RUSSIAN_VERBS: Final = frozenset(
    {
        *("готовлю", "разберусь", "перейдём", "перейдем", "скачиваю", "анализирую", "проверю"),
        *("посмотрю", "прочитаю", "запущу", "обновлю", "создам", "исправлю", "открою", "найду"),
        *("отправлю", "добавлю", "удалю", "сделаю", "начну", "выполню", "получу", "вызову"),
        *("забронирую", "изменю", "загружу", "поищу", "узнаю", "попробую", "перейду", "продолжу"),
        *("изучу", "запрошу", "установлю", "настрою", "напишу", "подготовлю", "скачаю"),
        *("проанализирую", "ищу", "проверяю", "запускаю", "читаю", "получаю", "запрашиваю"),
        *("вызываю", "открываю", "перехожу", "выполняю", "создаю", "обновляю", "начинаю"),
        *("загружаю", "отправляю", "добавляю", "удаляю", "исправляю", "бронирую", "изменяю"),
        *("приступаю", "займусь"),
    }
)
_CHINESE_STARTS: Final = (
    "接着",
    "先看",
    "先查",
    "正在",
    "马上为",
    "马上帮",
    "现在修",
    "现在开始",
    "现在来",
    "继续处理",
)
_CHINESE_CUES: Final = (
    *("我准备", "让我", "我来", "我先", "我将", "接下来", "我马上", "我这就", "下一步", "我们先"),
    *("我现在", "我正在", "下面我", "首先我", "首先，我", "继续执行", "马上为您", "立即为您"),
    *("我立即", "我去", "讓我", "我來", "接下來", "我會先", "我会先", "为您处理", "那我继续"),
    "现在我",
)
_JAPANESE_ENDS: Final = ("ます", "ますね", "ましょう", "ますので")
_JAPANESE_STRONG_ENDS: Final = (
    *("てみます", "てみますね", "でみます", "でみますね", "てみましょう", "でみましょう"),
    *("いたします", "しますね", "しましょう", "見ましょう", "みましょう", "調べます", "確認します"),
    "修正します",
)
_JAPANESE_STATES: Final = (
    *("あります", "ございます", "なります", "できます", "思います", "います", "お待ちしております"),
    *("れます", "おります", "いただけます", "りません", "お願いします", "お願いいたします"),
    "ますます",
)
_JAPANESE_STARTS: Final = (
    *("まず", "次に", "次は", "次の", "これから", "それでは", "では", "今から", "続いて", "今すぐ"),
    *("すぐに", "ただいま", "最初に", "その後"),
)
_JAPANESE_ONGOING: Final = (
    *("検索中です", "確認中です", "取得中です", "調査中です", "処理中です", "検索しています"),
    *("確認しています", "取得しています", "調べています", "読み込んでいます", "実行しています"),
)
_KOREAN_ENDS: Final = ("겠습니다", "게요", "겠어요", "봅시다", "보죠", "할께요")
_KOREAN_STATES: Final = (
    *("알겠습니다", "감사하겠습니다", "좋겠습니다", "도와드리겠습니다", "하지 않겠습니다"),
    *("모르겠습니다", "기다리겠습니다", "되겠습니다", "기억하겠습니다", "않을게요", "기다릴게요"),
    *("기억할게요", "좋겠어요", "모르겠어요", "알겠어요"),
)
_KOREAN_ONGOING: Final = (
    *("검색 중입니다", "조회 중입니다", "확인 중입니다", "처리 중입니다", "검색하고 있습니다"),
    *("조회하는 중입니다", "확인하는 중입니다", "찾는 중입니다", "찾고 있습니다"),
    *("확인하고 있습니다", "가져오는 중입니다", "조회하고 있습니다", "읽는 중입니다"),
    *("실행 중입니다", "불러오는 중입니다"),
)
_WAIT_STARTS: Final = (
    *("i'll be right back", "i'll be back", "i will be right back", "one moment", "one second"),
    *("just a moment", "just a second", "a moment please", "stand by", "please wait", "hang on"),
    *("please hold", "bear with me", "give me a moment", "hold on", "give me a second"),
    *("einen moment", "einen augenblick", "moment bitte", "bitte warten sie", "bitte warte"),
    *("moment,", "un instant", "un moment", "veuillez patienter", "un momento"),
    *("espere un momento", "espera un momento", "um momento", "aguarde", "un attimo", "attendi"),
    *("attenda", "одну минуту", "минутку", "подождите", "секунду", "один момент"),
)
_WAITS: Final = (
    *("请稍等", "请稍候", "稍等", "請稍等", "お待ちください", "お待ち下さい", "잠시만 기다려"),
    *("잠시만요", "기다려 주세요"),
)
# In these, the user decides, or nothing will be done.
_VETOES: Final = (
    # English
    *(" if you", " if need", " if necessary", " let me know", " tell me", " once you"),
    *(" when you", " until you", " until i", " tomorrow", " later", " feel free", " as soon as "),
    *(" without your", " your approval", " your permission", " your confirm", " you'd like"),
    *(" would you", " you can", " you should", " you want", " you need", " from you", " not "),
    *("n't ", " instead of me", " more information", " more detail", " your answer"),
    *(" your reply", " your response", " unless ", " for future ", " next time", " from now on"),
    *(
        *(" see you", " you soon", " from here on", " get back to ", " a note", " go with "),
        *(" call you", " what i can do", " stop here", " on monday"),
    ),
    # German
    *(" wenn ", " falls ", " sobald ", " bescheid", " nicht", " soll ich", " sag mir"),
    *(" sagen sie ", " nennen sie ", " leider ", " gerne weiter", " gern weiter", " morgen "),
    *(" kann ich ", " keine "),
    # French
    *(" si vous", " si tu ", " dès que ", " lorsque ", " quand ", " dites-moi", " dis-moi"),
    *(" n'hésit", " pouvez-vous", " pourriez", " ne peux ", " ne vais ", " ne suis "),
    # Spanish and Portuguese
    *(" si quieres", " si lo ", " si me ", " si necesit", " cuando ", " avísame", " dime "),
    *(" en cuanto", " indícame", " se quiser", " se precisar", " se você", " quando ", " diga-me"),
    *(" me diga", " me avise", " avise", " assim que ", " no puedo", " não posso", " no voy a "),
    " não vou ",
    # Italian
    *(" se vuoi", " se hai", " se ti ", " dimmi", " fammi sapere", " non appena", " non posso"),
    *(" mi faccia sapere", " se ha ", " se lo "),
    # Russian
    *(" если ", " как только", " когда ", " скажите", " уточните", " сообщите", " укажите"),
    *(" напишите", " могу ", " не ", " можете", " скажи "),
)
_ASCII_VETOES: Final = tuple(each for each in _VETOES if each.isascii())
_VETO_STARTS: Final = (
    *("if ", "once ", "when ", "whenever ", "unless ", "should you ", "after you ", "until "),
    *("could you ", "can you ", "please provide", "please tell", "please confirm", "please send"),
    *("wenn ", "falls ", "si ", "se ", "se, ", "если ", "to answer that, please"),
)
_REQUEST_STARTS: Final = (
    *("please ", "tell me ", "let me know ", "could you ", "bitte ", "sag mir", "nennen sie "),
    *("dites-moi", "dis-moi", "veuillez ", "dime ", "indícame", "por favor", "diga-me", "me diga"),
    *("dimmi", "per favore", "скажите", "укажите", "уточните", "пожалуйста", "сообщите"),
)
_WIDE_REQUESTS: Final = (
    *("请告诉", "请提供", "请问", "请确认", "ください", "下さい", "주세요", "까요"),
)
_WIDE_VETOES: Final = (
    *("如果", "如需", "若", "请告诉", "请提供", "您可以", "你可以", "需要您", "需要你", "告诉我"),
    *("吗", "请您", "随时", "请问", "建议", "您需要", "你需要", "请确认", "不会", "不能", "无法"),
    *("ください", "下さい", "れば", "たら", "場合", "ますか", "ですか", "でしょうか", "ません"),
    *("주시면", "시면", "하면 ", "으면", "언제든", "주세요", "까요", "않겠"),
)
