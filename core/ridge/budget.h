/* SPDX-License-Identifier: MIT */
/*
** What a piece of work may ask the memory of.
*/
#ifndef RIDGE_BUDGET_H
#define RIDGE_BUDGET_H

#include "ridge/base.h"

/*
** How many bytes of the CPU's memory this thread may still ask for, for tensors and what kernels
** work in; a request beyond that is refused with RG_ENOMEM, and takes nothing.  What is given back
** does not count: it bounds work that a file asks for and that nobody knows the size of before it
** ran.  Other threads are not bound, and rg_memory_set_limit holds besides.
**
** bytes    0 or more; -1: as many as there are
** Returns what was left of the one before; -1: there was none.
*/
RG_API int64_t rg_memory_budget(int64_t bytes);

#endif
