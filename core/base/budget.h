/* SPDX-License-Identifier: MIT */
/*
** What a thread may still ask for: the allocator's side of it.
*/
#ifndef RIDGE_BASE_BUDGET_H
#define RIDGE_BASE_BUDGET_H

#include "ridge/budget.h"

/* A request of this thread for memory of a device.  RG_ENOMEM where it is beyond its budget. */
rg_status rg_budget_take(int32_t device, int64_t bytes) RG_CHECK;

#endif
