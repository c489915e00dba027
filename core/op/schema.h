/* SPDX-License-Identifier: MIT */
/*
** The schema of a record: its inputs with their roles, its arguments with their types and
** defaults, as data.  From it come the checks of the dispatcher, the struct of the arguments, the
** signature and the help text, the methods of tensors in Lua, and the tests with wrong arguments.
**
** A record names its inputs in the order of the call:
**
**   RG_INPUTS(RG_IN("x", INPUT, FLOAT), RG_IN("w", WEIGHT, FLOAT), RG_OPTIONAL("b", BIAS, FLOAT))
**
** and its arguments once, as a list from which the struct and the table are expanded:
**
**   #define RG_DROPOUT_ARGS(A, S, AT) \
**     A(S, AT, f64, p, SHARE, 0.5, "probability of 0, 0 <= p < 1")
**   RG_ARGS_STRUCT(rg_dropout_args, RG_DROPOUT_ARGS);
**
** S is the struct a row belongs to, AT what stands before the name where that lies in a struct
** within it ("o.").
*/
#ifndef RIDGE_OP_SCHEMA_H
#define RIDGE_OP_SCHEMA_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ridge/schema.h"
#include "ridge/tensor.h"

/* Type, shape and layout of a tensor to be; outputs are contiguous. */
typedef struct rg_meta {
  int32_t dtype;
  int32_t ndim;
  int64_t shape[RG_MAX_DIMS];
} rg_meta;

/* -- Inputs -------------------------------------------------------------------------- */

#define RG_IN_ROW(label, of, type, may_miss, many)                                           \
  {                                                                                          \
    .name = (label), .role = RG_ROLE_##of, .types = RG_TYPES_##type, .optional = (may_miss), \
    .list = (many)                                                                           \
  }
#define RG_IN(name, role, types)            RG_IN_ROW(name, role, types, false, false)
#define RG_OPTIONAL(name, role, types)      RG_IN_ROW(name, role, types, true, false)
#define RG_LIST(name, role, types)          RG_IN_ROW(name, role, types, false, true)
#define RG_OPTIONAL_LIST(name, role, types) RG_IN_ROW(name, role, types, true, true)

#define RG_INPUTS(...)                        \
  .input = (const rg_input[]){ __VA_ARGS__ }, \
  .n_inputs = (int32_t)(sizeof((const rg_input[]){ __VA_ARGS__ }) / sizeof(rg_input))

/* -- Arguments ----------------------------------------------------------------------- */

#define RG_REQUIRED NAN

#define RG_FIELD_meta(name) rg_meta name

#define RG_ARG_ROW(S, AT, type, name, kind, fallback, doc) \
  { #name, doc, fallback, RG_ARG_##type, RG_ARG_##kind, (int32_t)offsetof(S, AT name) },

/* In a record: the table and the size of the struct. */
#define RG_ARGS(S, table) \
  .arg = (table), .n_args = (int32_t)(sizeof(table) / sizeof((table)[0])), .args_size = sizeof(S)

struct rg_call;

/* Arguments are what their kinds say: shares, layouts, reductions.  For infer functions. */
rg_status rg_check_args(const struct rg_call *call) RG_CHECK;

/* -- For the dispatcher ---------------------------------------------------------------------- */

/* What input i of a call is; behind the last one that is named stand those of its lists. */
const rg_input *rg_input_of(const struct rg_call *call, int32_t i);

/* The inputs that are needed are there, no others, and each of a type that the record names. */
rg_status rg_check_schema(const struct rg_call *call) RG_CHECK;

#endif
