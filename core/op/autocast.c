/* SPDX-License-Identifier: MIT */
/*
** The mixed-precision policy of a thread: which type operations of class LOWER compute in.
*/
#include "op/op.h"

static _Thread_local int32_t setting = -1;

int32_t rg_autocast_set(int32_t dtype)
{
  int32_t before = setting;

  setting = dtype == RG_BF16 || dtype == RG_F16 ? dtype : -1;
  return before;
}

int32_t rg_autocast(void)
{
  return setting;
}

/* Is input i there, and a number to compute with? */
static bool counts(const rg_call *call, int32_t i)
{
  return call->in[i] != NULL && rg_input_of(call, i)->role <= RG_ROLE_BIAS;
}

int32_t rg_autocast_for(const rg_call *call)
{
  if (setting < 0 || call->op->amp == RG_AMP_NONE || call->op->amp == RG_AMP_WIDEST) {
    return -1;
  }
  if (call->op->amp == RG_AMP_F32) {
    for (int32_t i = 0; i < call->n_in; i++) {
      if (counts(call, i) && call->in[i]->_dtype == RG_F64) {
        return -1;
      }
    }
    return RG_F32;
  }
  /* LOWER takes f32, f16 and bf16; f64 was asked for and stays */
  for (int32_t i = 0; i < call->n_in; i++) {
    if (counts(call, i) &&
        (call->in[i]->_dtype == RG_F64 || !rg_dtype_is_float(call->in[i]->_dtype))) {
      return -1;
    }
  }
  return setting;
}
