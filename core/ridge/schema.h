/* SPDX-License-Identifier: MIT */
/*
** What is known of every operation, as data: its inputs with their roles, its arguments with their
** types and defaults, its results.  Binding, help and tests are made from it.
*/
#ifndef RIDGE_SCHEMA_H
#define RIDGE_SCHEMA_H

#include "ridge/tensor.h"

/* -- Inputs -------------------------------------------------------------------------- */

/* What an input is to the operation, and who may convert it. */
enum {
  RG_ROLE_INPUT,  /* numbers to compute with: converted to call->compute */
  RG_ROLE_WEIGHT, /* the same; but a parameter (RG_TENSOR_PARAM) comes as it is, since the kernel
                  ** packs and converts it once per version; on a device it comes in
                  ** call->weight_cast, converted once per version too (weight_cast.c) */
  RG_ROLE_BIAS,   /* as a weight, but too small to keep a copy of in call->weight_cast */
  RG_ROLE_NATIVE, /* numbers that the kernel reads in the type they come in */
  RG_ROLE_INDEX,  /* whole numbers that number something */
  RG_ROLE_BITS,   /* a pattern and no numbers: masks, signs, seeds, draws */
  RG_ROLE_STATE   /* written to by the call: parameters of a step, moments, counts */
};

/* Element types an input may have. */
enum {
  RG_TYPES_ANY,   /* all that are computed with */
  RG_TYPES_FLOAT, /* f16, bf16, f32, f64 */
  RG_TYPES_WHOLE, /* i8, u8, i32, i64 */
  RG_TYPES_STORED /* all, those that are only stored (f8e4m3, f8e5m2) too */
};

typedef struct rg_input {
  const char *name;
  int8_t role;   /* RG_ROLE_..., which says who may convert it */
  int8_t types;  /* RG_TYPES_..., which the dispatcher checks */
  bool optional; /* NULL, or a list of none */
  bool list;     /* any number of tensors: the last inputs of a record.  Of several lists each has
                 ** as many as the first argument, i64 n, says */
} rg_input;

/* -- Arguments ----------------------------------------------------------------------- */

/* What an argument is in the struct: RG_ARG_i64x2 is two i64, RG_ARG_meta a type and a shape,
** RG_ARG_sizes an rg_sizes, RG_ARG_links an rg_links. */
enum {
  RG_ARG_i32,
  RG_ARG_u32,
  RG_ARG_i64,
  RG_ARG_f64,
  RG_ARG_i64x2,
  RG_ARG_meta,
  RG_ARG_sizes,
  RG_ARG_links
};

/* A number for each axis: sizes, strides, an order of axes. */
typedef struct rg_sizes {
  int64_t n;
  int64_t at[8]; /* n of them */
} rg_sizes;

/*
** One elementwise function of a fused chain.  The chain works on one value an element: a link may
** load it first, puts a function of it (and of a second operand) in its place, rounds that to its
** type, and may store it.
*/
typedef struct rg_link {
  int16_t id;      /* of the operation: unary, binary, act_back; -1: a cast, which only rounds */
  int8_t load;     /* an input, or behind those a result, that becomes the value first; -1: none */
  int8_t with;     /* the second operand: numbered alike; -1: none, -2: number, -3: the value */
  int8_t store;    /* the result it goes to; -1: none */
  int8_t dtype;    /* of what it makes */
  int8_t reversed; /* 1: the value is the second operand, and what it is done with the first */
  int8_t act;      /* of act_back: RG_ACT_... */
  double number;
} rg_link;

/* A fused chain. */
typedef struct rg_links {
  int64_t n;
  rg_link at[24]; /* n of them */
} rg_links;

/* What an argument means: how Lua says it, and what is refused. */
enum {
  RG_ARG_NUMBER,
  RG_ARG_WHOLE, /* a whole number */
  RG_ARG_SHARE, /* 0 <= p < 1 */
  RG_ARG_PART,  /* 0 <= p <= 1 */
  RG_ARG_FROM0, /* a number from 0 */
  RG_ARG_FLAG,
  RG_ARG_AXIS, /* negative ones from the end; resolved before the call */
  RG_ARG_AXES, /* a set of axes, as bits */
  RG_ARG_DTYPE,
  RG_ARG_ACT,
  RG_ARG_LAYOUT,
  RG_ARG_REDUCTION,
  RG_ARG_POSITION, /* on an axis; from 1 in Lua */
  RG_ARG_SHAPE,    /* sizes */
  RG_ARG_ORDER,    /* axes, every one once */
  RG_ARG_STRIDES,
  RG_ARG_FOUND /* nobody says it: worked out from the tensors, or by the entry */
};

typedef struct rg_arg {
  const char *name;
  const char *doc;
  double fallback; /* NaN: it has to be given */
  int16_t type;    /* RG_ARG_i32 ... */
  int16_t kind;    /* RG_ARG_NUMBER ..., what it means */
  int32_t offset;  /* in the struct, bytes */
} rg_arg;

/*
** Structs of options and of arguments are lists of rows A(S, AT, type, name, kind, default, text),
** from which the struct and its description are expanded (core/op/schema.h).
*/
#define RG_FIELD_i32(name)                                   int32_t name
#define RG_FIELD_u32(name)                                   uint32_t name
#define RG_FIELD_i64(name)                                   int64_t name
#define RG_FIELD_f64(name)                                   double name
#define RG_FIELD_i64x2(name)                                 int64_t name[2]
#define RG_FIELD_sizes(name)                                 rg_sizes name
#define RG_FIELD_links(name)                                 rg_links name
#define RG_ARG_FIELD(S, AT, type, name, kind, fallback, doc) RG_FIELD_##type(name);
#define RG_ARGS_STRUCT(S, LIST) \
  typedef struct S {            \
    LIST(RG_ARG_FIELD, S, )     \
  } S

/* -- Operations ------------------------------------------------------------------------ */

/* Mixed-precision classes: what autocast does to the float inputs of an operation. */
enum { RG_AMP_NONE, RG_AMP_LOWER, RG_AMP_F32, RG_AMP_WIDEST };

/* What runs a record: kernels of the devices, nothing (a view shares the memory), or a body of
** other operations. */
enum { RG_RECORD_KERNEL, RG_RECORD_VIEW, RG_RECORD_COMPOUND };

/* What one record says; all that is pointed to is borrowed for ever. */
typedef struct rg_op_facts {
  const char *name;          /* "softmax" */
  const char *doc;           /* one line */
  const rg_input *input;     /* n_inputs */
  const rg_arg *arg;         /* n_args */
  const char *const *result; /* n_results, and behind them n_hidden that only gradients read */
  int32_t n_inputs;
  int32_t n_args;
  int32_t n_results;
  int32_t n_hidden;
  int32_t args_bytes; /* size of the struct of the arguments */
  int32_t amp;        /* mixed-precision class, RG_AMP_... */
  int32_t draws;      /* 1 if it draws random numbers */
  int32_t into;       /* 1 if, as a method, it writes into its tensor */
  int32_t method;     /* 1 if it is a method of tensors */
  int32_t has_grad;   /* 1 if the record carries a gradient */
  int32_t kind;       /* RG_RECORD_... */
} rg_op_facts;

/* The number of operations that have kernels; they come first. */
RG_API int32_t rg_op_count(void);

/* The number of all records, views and operations of several too. */
RG_API int32_t rg_record_count(void);

/* The facts of record index (0-based).  out: filled.  RG_EARG. */
RG_API rg_status rg_op_facts_of(int32_t index, rg_op_facts *out) RG_CHECK;

/*
** Run record index, as one that has no function of its own is run.
**
** in        n_in tensors in the order of the record, NULL where one is optional and left out
** args      the struct its rows describe, args_bytes long; axes may be negative
** generator of an operation that draws; NULL: the default stream
** out       n_results new tensors
** RG_EARG, RG_EAXIS, and what the operation answers; RG_ENOSUP for one that needs what nobody
** types (RG_ARG_FOUND).
*/
RG_API rg_status rg_op_call(int32_t index, const rg_tensor *const *in, int32_t n_in,
                            const void *args, rg_generator *generator, rg_tensor **out) RG_CHECK;

#endif
