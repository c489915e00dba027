/* SPDX-License-Identifier: MIT */
/*
** Copies of a call that outlive it: the steps of a plan, the nodes of the tape.
*/
#ifndef RIDGE_OP_CALL_H
#define RIDGE_OP_CALL_H

#include <string.h>

#include "op/op.h"

enum { RG_CALL_ALIGN = 16 };

/* Bytes for a copy's list of inputs and its arguments. */
static inline int64_t rg_call_room(const rg_call *call)
{
  return rg_round_up(call->n_in * (int64_t)sizeof(rg_tensor *), RG_CALL_ALIGN) +
         (int64_t)call->op->args_size;
}

/*
** Copy a call into `to`, its arguments into the room of so many zeroed bytes.  Returns the copy's
** list of inputs, all NULL: what a copy holds of them is its owner's to say.
*/
static inline const rg_tensor **rg_call_copy(rg_call *to, const rg_call *call, void *room)
{
  const rg_tensor **in = room;
  char *args = (char *)room + rg_call_room(call) - call->op->args_size;

  *to = *call;
  to->in = in;
  to->args = args;
  if (call->args != NULL) {
    memcpy(args, call->args, call->op->args_size);
  }
  return in;
}

#endif
