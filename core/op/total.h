/* SPDX-License-Identifier: MIT */
/*
** How the work of a total over many tensors is cut.
*/
#ifndef RIDGE_OP_TOTAL_H
#define RIDGE_OP_TOTAL_H

#include "op/op.h"

enum { RG_TOTAL_PIECE = 16384 }; /* elements of one tensor that are added up at once */

/* Pieces of one tensor. */
int64_t rg_total_pieces(const rg_tensor *x);

#endif
