"""Finds claims in an answer that no tool call supports: "The record has been created with ID 4711".

    clause ─► a completed action, not denied, asked, or conditional ─► of which kind?
           ├─ a call that succeeded may have done it ────────────────► supported
           ├─ results or the user's text mention it ─────────────────► supported
           └─ otherwise ─────────────────────────────────────────────► unsupported
    id     ─► after a word such as "ID", with a digit ───────────────► in the conversation?

No model judges. The check prefers silence: a tool whose name says nothing about what it does may
have done anything, and "created" and "updated" count only where a tool of that kind is exposed,
because answers create texts as well.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from surecall.core.state import Run, once_per_run
from surecall.values.types import Assistant, System, ToolCall, ToolResult, ToolSpec, User, is_blank
from surecall.wire.chat_format import encode
from surecall.wire.content_parts import text_of

# ruff: noqa: RUF001 (models write these characters)

_MAX_TEXT: Final = 20_000
_MAX_CLAIMS: Final = 8
_MAX_QUOTE: Final = 120
_FENCE: Final = "```"
_MIN_ID: Final = 3
_MAX_ID: Final = 64
_CUE_WINDOW: Final = 30


class _Kind(msgspec.Struct, frozen=True):
    """A kind of action: the words of tools that do it, and how answers say that it is done.

    A `weak` kind may also be done by the answer itself. `also` are kinds whose tools may do it.
    """

    tools: frozenset[str]
    participles: frozenset[str]
    finite: frozenset[str]
    wide: tuple[str, ...]
    weak: bool = False
    also: tuple[str, ...] = ()


_KINDS: Final[dict[str, _Kind]] = {
    "create": _Kind(
        frozenset(
            {
                *("create", "add", "insert", "new", "make", "register", "open", "save", "store"),
                *("put", "post", "write", "set", "log", "record", "append", "file", "submit"),
            }
        ),
        frozenset(
            {
                *("created", "added", "registered", "saved", "recorded", "inserted", "submitted"),
                *("erstellt", "angelegt", "hinzugefügt", "eingetragen", "gespeichert", "créé"),
                *("créée", "créés", "créées", "ajouté", "ajoutée", "ajoutés", "enregistré"),
                *("enregistrée", "creado", "creada", "añadido", "añadida", "agregado", "agregada"),
                *("registrado", "registrada", "guardado", "guardada", "criado", "criada"),
                *("adicionado", "adicionada", "salvo", "salva", "creato", "creata", "aggiunto"),
                *("aggiunta", "registrato", "registrata", "salvato", "salvata"),
            }
        ),
        frozenset(
            {
                *("creé", "añadí", "agregué", "registré", "guardé", "criei", "adicionei"),
                *("registrei", "salvei", "создан", "создана", "создано", "созданы", "создал"),
                *("создала", "добавлен", "добавлена", "добавлено", "добавлены", "добавил"),
                *("добавила", "сохранен", "сохранена", "сохранён", "сохранено", "сохранил"),
                *("сохранила", "записан", "записана", "записал"),
            }
        ),
        (
            *("已创建", "已为您创建", "创建了", "创建成功", "已添加", "添加了", "添加到"),
            *("添加成功", "已新增", "已保存", "保存了", "作成しました", "作成いたしました"),
            *("追加しました", "登録しました", "保存しました", "생성했습니다", "생성되었습니다"),
            *("추가했습니다", "추가되었습니다", "등록했습니다", "등록되었습니다", "저장했습니다"),
            "만들었습니다",
        ),
        weak=True,
        also=("update", "book"),
    ),
    "update": _Kind(
        frozenset(
            {
                *("update", "edit", "modify", "change", "patch", "rename", "replace", "move"),
                *("upsert", "adjust", "apply"),
            }
        ),
        frozenset(
            {
                *("updated", "changed", "modified", "renamed", "edited", "aktualisiert"),
                *("geändert", "angepasst", "umbenannt", "modifié", "modifiée", "modifiés"),
                *("actualizado", "actualizada", "modificado", "modificada", "cambiado", "cambiada"),
                *("atualizado", "atualizada", "alterado", "alterada", "aggiornato", "aggiornata"),
                *("modificato", "modificata"),
            }
        ),
        frozenset(
            {
                *("actualicé", "modifiqué", "cambié", "atualizei", "alterei", "modifiquei"),
                *("обновлен", "обновлён", "обновлена", "обновлено", "обновлены", "обновил"),
                *("обновила", "изменен", "изменён", "изменена", "изменено", "изменены", "изменил"),
                "изменила",
            }
        ),
        (
            *("mise à jour", "mis à jour", "已更新", "更新了", "更新成功", "已修改", "修改了"),
            *("修改成功", "更新しました", "変更しました", "修正しました", "업데이트했습니다"),
            *("업데이트되었습니다", "수정했습니다", "수정되었습니다", "변경했습니다"),
            "변경되었습니다",
        ),
        weak=True,
        also=("create",),
    ),
    "send": _Kind(
        frozenset(
            {
                *("send", "email", "mail", "message", "notify", "notification", "forward", "post"),
                *("reply", "sms", "share", "publish", "deliver", "contact"),
            }
        ),
        frozenset(
            {
                *("sent", "emailed", "notified", "forwarded", "gesendet", "geschickt", "versendet"),
                *("verschickt", "benachrichtigt", "envoyé", "envoyée", "envoyés", "envoyées"),
                *("notifié", "enviado", "enviada", "enviados", "notificado", "inviato", "inviata"),
                *("inviati", "spedito", "spedita"),
            }
        ),
        frozenset(
            {
                *("envié", "enviei", "отправлен", "отправлена", "отправлено", "отправлены"),
                *("отправил", "отправила", "выслал", "выслала"),
            }
        ),
        (
            *("已发送", "发送了", "发送给", "发送成功", "已通知", "送信しました"),
            *("送信いたしました", "送りました", "보냈습니다", "전송했습니다", "전송되었습니다"),
            *("발송했습니다", "발송되었습니다"),
        ),
    ),
    "book": _Kind(
        frozenset(
            {
                *("book", "booking", "reserve", "reservation", "schedule", "appointment", "event"),
                *("calendar", "meeting"),
            }
        ),
        frozenset(
            {
                *("booked", "reserved", "scheduled", "gebucht", "reserviert", "réservé"),
                *("réservée", "planifié", "planifiée", "reservado", "reservada", "agendado"),
                *("agendada", "programado", "programada", "prenotato", "prenotata"),
            }
        ),
        frozenset(
            {
                *("reservé", "agendé", "reservei", "agendei", "забронирован", "забронирована"),
                *("забронировано", "забронировал", "забронировала", "запланирован"),
                "запланирована",
            }
        ),
        (
            *("已预订", "已为您预订", "预订了", "预订成功", "已预约", "预约成功", "予約しました"),
            *("予約いたしました", "予約が完了しました", "예약했습니다", "예약되었습니다"),
            "예약이 완료되었습니다",
        ),
        also=("create", "update"),
    ),
    "delete": _Kind(
        frozenset(
            {"delete", "remove", "erase", "drop", "clear", "purge", "destroy", "rm", "unlink"}
        ),
        frozenset(
            {
                *("deleted", "removed", "erased", "gelöscht", "entfernt", "supprimé", "supprimée"),
                *("supprimés", "supprimées", "effacé", "eliminado", "eliminada", "eliminados"),
                *("borrado", "borrada", "borrados", "excluído", "excluída", "excluídos"),
                *("removido", "removida", "apagado", "apagados", "eliminato", "eliminata"),
                *("eliminati", "rimosso", "rimossa", "rimossi"),
            }
        ),
        frozenset(
            {
                *("eliminé", "borré", "excluí", "removi", "apaguei", "удален", "удалён", "удалена"),
                *("удалено", "удалены", "удалил", "удалила"),
            }
        ),
        (
            *("已删除", "已全部删除", "删除了", "删除成功", "已移除", "削除しました"),
            *("削除いたしました", "삭제했습니다", "삭제되었습니다"),
        ),
        also=("cancel",),
    ),
    "cancel": _Kind(
        frozenset({"cancel", "cancellation", "void", "revoke", "terminate", "unsubscribe"}),
        frozenset(
            {
                *("cancelled", "canceled", "storniert", "abgesagt", "gekündigt", "annulé"),
                *("annulée", "cancelado", "cancelada", "anulado", "anulada", "annullato"),
                *("annullata", "cancellato", "cancellata", "disdetto", "disdetta"),
            }
        ),
        frozenset(
            {
                *("cancelé", "anulé", "cancelei", "отменен", "отменён", "отменена", "отменено"),
                *("отменил", "отменила"),
            }
        ),
        (
            *("已取消", "取消了", "取消成功", "キャンセルしました", "キャンセルいたしました"),
            *("取り消しました", "취소했습니다", "취소되었습니다"),
        ),
        also=("delete",),
    ),
    "pay": _Kind(
        frozenset(
            {
                *("pay", "payment", "refund", "transfer", "charge", "order", "purchase", "buy"),
                *("checkout", "deposit", "withdraw", "fund", "transaction", "invoice"),
            }
        ),
        frozenset(
            {
                *("paid", "refunded", "transferred", "purchased", "bezahlt", "überwiesen"),
                *("erstattet", "bestellt", "payé", "payée", "remboursé", "remboursée", "commandé"),
                *("transféré", "pagado", "pagada", "reembolsado", "reembolsada", "transferido"),
                *("transferida", "comprado", "comprada", "pagato", "pagata", "rimborsato"),
                *("rimborsata", "trasferito"),
            }
        ),
        frozenset(
            {
                *("pagué", "transferí", "reembolsé", "paguei", "transferi", "comprei", "оплачен"),
                *("оплачена", "оплачено", "оплатил", "оплатила", "перевел", "перевёл", "перевела"),
                *("переведены", "переведено", "возвращены"),
            }
        ),
        (
            *("已支付", "支付成功", "付款成功", "已退款", "退款成功", "已转账", "转账成功"),
            *("已下单", "支払いました", "返金しました", "振り込みました", "注文しました"),
            *("결제했습니다", "환불했습니다", "환불되었습니다", "송금했습니다", "주문했습니다"),
            "결제되었습니다",
        ),
        also=("create",),
    ),
}
_ALL_WORDS: Final = frozenset[str]().union(
    *(kind.participles | kind.finite for kind in _KINDS.values())
)
_READING: Final = frozenset(
    {
        *("get", "list", "search", "read", "find", "fetch", "query", "lookup", "check", "show"),
        *("describe", "view", "count", "weather", "forecast", "status", "browse", "retrieve"),
        *("inspect", "calculate", "compute", "convert", "translate"),
    }
)
# Words that make a participle a completed action.
_AUXILIARIES: Final = frozenset(
    {
        *("i", "i've", "we", "we've", "have", "has", "been", "was", "were", "now", "successfully"),
        *("habe", "haben", "wurde", "wurden", "ist", "sind", "hat", "j'ai", "ai", "été", "avons"),
        *("he", "ha", "han", "hemos", "sido", "está", "están", "fue", "fueron", "foi", "foram"),
        *("ho", "stato", "stata", "stati", "state", "abbiamo"),
    }
)
_GERMAN: Final = frozenset({"habe", "haben", "wurde", "wurden", "ist", "sind", "hat"})
_NEAR: Final = 4
# After a participle that begins a sentence.
_OBJECT_STARTS: Final = frozenset({"the", "your", "a", "an", "all", "it", "and", "successfully"})
_VETOES: Final = frozenset(
    {
        *("not", "no", "none", "never", "cannot", "can", "could", "would", "should", "will", "if"),
        *("once", "when", "unable", "failed", "may", "might", "must", "you've", "unless", "until"),
        *("by", "before", "nicht", "kein", "keine", "konnte", "konnten", "kann", "können", "soll"),
        *("wenn", "falls", "sobald", "pas", "si", "peux", "peut", "puis", "quand", "aucun"),
        *("aucune", "pudo", "puede", "cuando", "não", "pode", "se", "quando", "non", "posso", "не"),
        *("если", "могу", "когда", "werden", "sera", "será", "sarà", "будет", "how", "n'a", "n'ai"),
        *("n'est", "n'ont", "isn't", "wasn't", "weren't", "haven't", "hasn't", "couldn't", "yet"),
        *("wird", "nichts", "niemand", "rien", "nada", "niente", "nulla", "nothing", "already"),
        *("that", "which", "what", "whose", "whether", "while", "or", "each", "every", "after"),
        *("nessun", "nessuno", "ningún", "nenhum", "would've"),
    }
)
_WIDE_VETOES: Final = (
    *("如果", "若", "没有", "未", "无法", "失败", "不", "吗", "将", "ません", "なかった", "でき"),
    *("場合", "れば", "たら", "않", "못", "실패", "없", "까요", "으면", "시면"),
)
_ARTIFACTS: Final = frozenset(
    {
        *("below", "above", "here's", "following", "draft", "example", "summary", "list:", "table"),
        *("code", "function", "script", "snippet", "plan", "outline", "version", "text", "poem"),
        *("unten", "oben", "folgende", "folgenden", "entwurf", "zusammenfassung", "ci-dessous"),
        *("résumé", "siguiente", "resumen", "abaixo", "resumo", "seguito", "riassunto", "ниже"),
    }
)
_WIDE_ARTIFACTS: Final = ("以下", "下面", "摘要", "要約", "아래", "요약", "代码", "函数")
_AROUND: Final = "\"'*_`()[]:-✅"
_EDGES: Final = f"{_AROUND}.,;!?"
_CLAUSE_ENDS: Final = frozenset(".!?;,\n。！？；，、")
_ID_CUES: Final = (
    *(" id", "confirmation", "tracking", "confirmation code", "booking code", "reference", " ref"),
    *("order number", "ticket number", "booking number", "reservation number", "case number"),
    *("confirmation number", "tracking number", "invoice number", "reference number", "nummer"),
    *("numéro", "número de pedido", "número de reserva", "numero d'ordine"),
    *("numero di prenotazione", "номер заказа", "номер", "编号", "订单号", "单号", "番号", "번호"),
)
_CUE_FILL: Final = " \t*_`'\":=#(（：は为是는은is"


def unsupported_claims(run: Run) -> tuple[str, ...]:
    """Return the clauses of the newest answer that no call of the conversation supports."""
    if run.config.verify_claims == "off" or not run.tools or run.output is not None:
        return ()
    return _claims_in_answer(run)


@once_per_run
def _claims_in_answer(run: Run) -> tuple[str, ...]:
    said = run.replies[-1] if run.replies else None
    if said is None or said.calls or is_blank(said.text):
        return ()
    text = _without_code(said.text[:_MAX_TEXT])
    supported: dict[tuple[str, bool], bool] = {}
    found = []
    for clause, name in _action_claims(text):
        judged = name, _is_own(clause)
        if judged not in supported:
            supported[judged] = _is_supported(run, _KINDS[name], is_own=judged[1])
        found += [] if supported[judged] else [clause]
    found += [quote for quote, value in _id_claims(text) if _letters(value) not in _known_text(run)]
    return tuple(dict.fromkeys(each.strip()[:_MAX_QUOTE] for each in found))[:_MAX_CLAIMS]


def _without_code(text: str) -> str:
    """Return a text without fenced code and quoted lines."""
    if _FENCE in text:
        text = "\n".join(text.split(_FENCE)[::2])
    if ">" not in text:
        return text
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(">"))


def _action_claims(text: str) -> Iterator[tuple[str, str]]:
    """Yield the clauses that claim a completed action, with the name of its kind."""
    # Most answers have no such word at all.
    if text.isascii() and _ALL_WORDS.isdisjoint(
        word.strip(_EDGES) for word in text.casefold().split()
    ):
        return
    for clause, is_question in _clauses(text):
        if is_question:
            continue
        folded = clause.casefold().replace("’", "'")
        name = _kind_of(folded)
        if not name or _is_denied(folded) or (_KINDS[name].weak and _is_artifact(folded)):
            continue
        yield clause, name


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the clauses of a text, and whether each belongs to a question."""
    begin = 0
    parts: list[str] = []
    for at, char in enumerate(text):
        if char not in _CLAUSE_ENDS or (char in ".," and text[at + 1 : at + 2].isalnum()):
            continue
        parts.append(text[begin:at])
        begin = at + 1
        if char not in ",，、;；":
            yield from ((part, char in "?？") for part in parts if part)
            parts = []
    yield from ((part, False) for part in (*parts, text[begin:]) if part)


def _kind_of(folded: str) -> str:
    """Return the name of the kind of action that a clause says is completed; else blank."""
    words = [word.strip(_AROUND) for word in folded.split()]
    if folded.isascii() and _ALL_WORDS.isdisjoint(words):
        return ""
    return next((name for name, kind in _KINDS.items() if _says_done(kind, folded, words)), "")


def _says_done(kind: _Kind, folded: str, words: list[str]) -> bool:
    if not folded.isascii() and any(phrase in folded for phrase in kind.wide):
        return True
    if not kind.finite.isdisjoint(words):
        return True
    at = next((at for at, word in enumerate(words) if word in kind.participles), -1)
    if at == 0:
        return len(words) > 1 and words[1] in _OBJECT_STARTS
    # In German, the object stands between the two.
    nearest = words[:at] if _GERMAN & set(words) else words[max(0, at - _NEAR) : at]
    return at > 0 and not _AUXILIARIES.isdisjoint(nearest)


def _is_denied(folded: str) -> bool:
    """Whether a clause denies the action, makes it depend on something, or is about the user."""
    words = folded.replace("'t ", "'t not ").split()
    if not _VETOES.isdisjoint(words) or words[:1] == ["you"] or " to be " in folded:
        return True
    return not folded.isascii() and any(each in folded for each in _WIDE_VETOES)


def _is_artifact(folded: str) -> bool:
    """Whether a clause is about what the answer itself holds."""
    return not _ARTIFACTS.isdisjoint(folded.replace(":", "").split()) or any(
        each in folded for each in _WIDE_ARTIFACTS
    )


def _is_supported(run: Run, kind: _Kind, *, is_own: bool) -> bool:
    """Whether a call may have done such an action, or the conversation tells of one."""
    if kind.weak and not any(_may_do(spec.name, kind) for spec in run.tools):
        return True
    specs = {spec.name: spec for spec in run.tools}
    calls = _successful_calls(run)
    if any(_may_have_done(call, specs.get(call.name), kind) for call in calls):
        return True
    # A clause without "I" may tell what a tool or the user said.
    known = (*kind.participles, *kind.finite, *kind.wide)
    return not is_own and any(_mentions(text, known) for text in _given_texts(run))


def _is_own(clause: str) -> bool:
    """Whether the answer says that it did something itself."""
    return any(word in _FIRST_PERSON for word in clause.casefold().replace("’", "'").split())


_FIRST_PERSON: Final = frozenset({"i", "i've", "we", "we've", "ich", "j'ai", "ho", "я", "he"})


def _may_have_done(call: ToolCall, spec: ToolSpec | None, kind: _Kind) -> bool:
    if spec is not None and spec.read_only:
        return False
    return (
        _may_do(call.name, kind)
        or _is_unknown_tool(call.name)
        or _mentions(encode(call.arguments).decode(), (*kind.participles, *kind.tools))
    )


def _may_do(name: str, kind: _Kind) -> bool:
    words = _name_words(name)
    return not words.isdisjoint(kind.tools) or any(
        not words.isdisjoint(_KINDS[other].tools) for other in kind.also
    )


def _is_unknown_tool(name: str) -> bool:
    """Whether the name of a tool does not say what it does."""
    words = _name_words(name)
    return words.isdisjoint(_READING) and all(
        words.isdisjoint(kind.tools) for kind in _KINDS.values()
    )


def _name_words(name: str) -> set[str]:
    spaced = "".join(f" {char.lower()}" if char.isupper() else char for char in name)
    parts = "".join(char if char.isalnum() else " " for char in spaced).split()
    return {*parts, *(part.rstrip("s") for part in parts), name.lower()}


def _mentions(text: str, words: Iterable[str]) -> bool:
    folded = text.casefold()
    return any(word in folded for word in words if len(word) > 2 or not word.isascii())  # noqa: PLR2004


@once_per_run
def _successful_calls(run: Run) -> tuple[ToolCall, ...]:
    """Return the calls of the whole conversation that succeeded."""
    done = {item.call_id for item in run.messages if isinstance(item, ToolResult) and item.ok}
    return tuple(
        call
        for message in run.messages
        if isinstance(message, Assistant)
        for call in message.calls
        if call.id in done
    )


def _given_texts(run: Run) -> Iterator[str]:
    """Yield the texts of tools, users, and the application."""
    if run.system is not None:
        yield run.system.text
    for message in run.messages:
        match message:
            case ToolResult(content=content, ok=ok) if ok:
                yield content
            case User(content=content, nudge=False):
                yield text_of(content)
            case System(text=text):
                yield text
            case _:
                pass


def _id_claims(text: str) -> Iterator[tuple[str, str]]:
    """Yield the ids that a text names, each with its clause: words with digits after "ID"."""
    if text.isascii() and not any(digit in text for digit in "0123456789"):
        return
    for clause, is_question in _clauses(text):
        if is_question or not any(map(str.isdigit, clause)):
            continue
        folded = clause.casefold()
        if _is_denied(folded):
            continue
        for begin, end in _id_spans(clause):
            window = f" {folded[max(0, begin - _CUE_WINDOW) : begin]}".rstrip(_CUE_FILL)
            if window.endswith(_ID_CUES):
                yield clause, clause[begin:end]


def _id_spans(clause: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of ASCII words that hold a digit, with hyphens inside."""
    begin = -1
    for at, char in enumerate(f"{clause} "):
        is_inside = char.isascii() and (char.isalnum() or char in "-_")
        if is_inside and begin < 0:
            begin = at
        elif not is_inside and begin >= 0:
            word = clause[begin:at].strip("-_")
            if _MIN_ID <= len(word) <= _MAX_ID and any(map(str.isdigit, word)):
                yield begin, at
            begin = -1


@once_per_run
def _known_text(run: Run) -> str:
    """Return the letters and digits of what the model was given, and of its successful calls."""
    calls = (encode(call.arguments).decode() for call in _successful_calls(run))
    return " ".join(map(_letters, (*_given_texts(run), *calls)))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
