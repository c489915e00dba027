/* SPDX-License-Identifier: MIT */
/*
** What the layers of several operations share.
*/
#ifndef RIDGE_LAYER_COMPOUND_H
#define RIDGE_LAYER_COMPOUND_H

#include "op/compose.h"
#include "op/list.h"
#include "ridge/compound.h"
#include "ridge/grad.h"

/* 1 where place i may see place j, j <= i, else 0: [n x n], of the type of `like` and beside it. */
rg_value rg_tril(rg_compose *f, int64_t n, rg_value like);

#endif
