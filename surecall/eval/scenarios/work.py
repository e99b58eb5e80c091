"""The pack `work`: everyday tasks with data flow, in the order of the report.

    work_flow         what one call finds, the next one needs; a wrong item is there to be chosen
    work_no_tool      the answer is known, and no tool is needed
    work_impossible   it cannot be done, and that is the answer

Judged are the state, each side effect, and whether the answer tells the truth.
"""

from typing import Final

from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.scenarios.work_office import (
    work_assign_ticket,
    work_pay_invoice,
    work_redirect_parcel,
    work_share_folder,
)
from surecall.eval.scenarios.work_records import (
    work_close_duplicates,
    work_find_room,
    work_move_appointment,
    work_order_part,
    work_revoke_key,
)
from surecall.eval.scenarios.work_refusals import (
    work_common_knowledge,
    work_dead_printer,
    work_full_course,
    work_missing_booking,
    work_told_already,
)
from surecall.eval.scenarios.work_services import (
    work_closed_transfers,
    work_end_subscription,
    work_extend_loan,
    work_find_tariff,
    work_give_shift,
)

WORK: Final[tuple[Scenario, ...]] = (
    work_redirect_parcel,
    work_assign_ticket,
    work_pay_invoice,
    work_share_folder,
    work_order_part,
    work_revoke_key,
    work_close_duplicates,
    work_move_appointment,
    work_find_room,
    work_extend_loan,
    work_give_shift,
    work_end_subscription,
    work_find_tariff,
    work_common_knowledge,
    work_told_already,
    work_dead_printer,
    work_missing_booking,
    work_full_course,
    work_closed_transfers,
)
