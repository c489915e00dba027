/* SPDX-License-Identifier: MIT */
/*
** Steps of optimizers over any number of parameters, and the norm of all gradients: signatures,
** checks, costs, public entries.  The kernels are in core/cpu/step.c.
*/
#include "op/list.h"
#include "op/step.h"

extern const rg_op rg_op_sgd_step;
extern const rg_op rg_op_adam_step;
extern const rg_op rg_op_lion_step;
extern const rg_op rg_op_total_norm;

/* -- Checks --------------------------------------------------------------------------------- */

static rg_status check_number(const rg_call *call, int32_t i, const char *what)
{
  const rg_tensor *x = call->in[i];
  char text[96];

  RG_TRY(rg_tensor_check(x, call->op->name));
  if (x->_count != 1 || !rg_dtype_is_float(x->_dtype)) {
    return rg_fail(RG_ESHAPE, "%s: the %s is %s, wanted one number of a float type", call->op->name,
                   what, rg_tensor_text(x, text, sizeof(text)));
  }
  return RG_OK;
}

/* A gradient, or a state, of a parameter. */
static rg_status check_beside(const rg_call *call, int64_t i, int32_t at, bool state)
{
  const rg_tensor *p = call->in[rg_step_param(i)];
  const rg_tensor *x = call->in[at];
  const char *what = state ? "state" : "gradient";
  char a[96];
  char b[96];

  RG_TRY(rg_tensor_check(x, call->op->name));
  if (!rg_tensor_shaped(x, p->_shape, p->_ndim)) {
    return rg_fail(RG_ESHAPE, "%s: the %s of parameter %lld is %s, and the parameter %s",
                   call->op->name, what, (long long)i + 1, rg_tensor_text(x, a, sizeof(a)),
                   rg_tensor_text(p, b, sizeof(b)));
  }
  bool wide = p->_dtype == RG_F64;
  bool fits = state ? x->_dtype == (wide ? RG_F64 : RG_F32)
                    : rg_dtype_is_float(x->_dtype) && (x->_dtype == RG_F64) == wide;

  if (!fits) {
    return rg_fail(RG_EDTYPE, "%s: the %s of parameter %lld is %s, and the parameter %s",
                   call->op->name, what, (long long)i + 1, rg_tensor_text(x, a, sizeof(a)),
                   rg_tensor_text(p, b, sizeof(b)));
  }
  return RG_OK;
}

static rg_status infer(rg_call *call)
{
  const rg_step_args *args = call->args;
  const rg_tensor *count = call->in[RG_STEP_COUNT];
  char text[96];

  RG_TRY(rg_check_args(call));
  RG_TRY(check_number(call, RG_STEP_RATE, "learning rate"));
  RG_TRY(rg_tensor_check(count, call->op->name));
  if (count->_dtype != RG_F64 || count->_count != 1) {
    return rg_fail(RG_EDTYPE, "%s: the count of steps is %s, wanted f64[1]", call->op->name,
                   rg_tensor_text(count, text, sizeof(text)));
  }
  if (call->in[RG_STEP_SCALE] != NULL) {
    RG_TRY(check_number(call, RG_STEP_SCALE, "scale of the gradients"));
  }
  for (int64_t i = 0; i < args->n; i++) {
    const rg_tensor *p = call->in[rg_step_param(i)];

    RG_TRY(rg_tensor_check(p, call->op->name));
    if (!rg_dtype_is_float(p->_dtype)) {
      return rg_fail(RG_EDTYPE, "%s: parameter %lld is %s, wanted a float type", call->op->name,
                     (long long)i + 1, rg_tensor_text(p, text, sizeof(text)));
    }
    RG_TRY(rg_tensor_writable(p, call->op->name));
    RG_TRY(check_beside(call, i, rg_step_grad(args, i), false));
    for (int64_t k = 0; k < args->states; k++) {
      RG_TRY(check_beside(call, i, rg_step_state(args, k, i), true));
      RG_TRY(rg_tensor_writable(call->in[rg_step_state(args, k, i)], call->op->name));
    }
  }
  call->n_out = 0;
  return RG_OK;
}

/* -- Costs ------------------------------------------------------------------------------------ */

/* Elements of all parameters. */
static double elements(const rg_call *call)
{
  const rg_step_args *args = call->args;
  double sum = 0;

  for (int64_t i = 0; i < args->n; i++) {
    sum += (double)call->in[rg_step_param(i)]->_count;
  }
  return sum;
}

/* What is written is read first: parameters and states cross memory twice. */
static rg_cost cost_of(const rg_call *call, double flops_each)
{
  rg_cost cost = { .flops = flops_each * elements(call) };

  for (int32_t i = 0; i < call->n_in; i++) {
    if (call->in[i] != NULL) {
      cost.bytes += (rg_call_writes(call, i) ? 2.0 : 1.0) * (double)rg_tensor_bytes(call->in[i]);
    }
  }
  return cost;
}

/* What these options ask for of each element, by the formulas of ridge/step.h: a factor of 1 and a
** term of 0 count nothing, nor what is the same for all elements.  Gradients are scaled or not. */
static double scaled(const rg_call *call)
{
  return call->in[RG_STEP_SCALE] != NULL;
}

static rg_cost sgd_cost(const rg_call *call)
{
  const rg_sgd_options *o = &((const rg_step_args *)call->args)->o.sgd;
  double each = 2 + scaled(call); /* times the rate, away from p */

  each += o->weight_decay != 0 ? 2 : 0;
  if (o->momentum > 0) {
    each += 2 + (o->dampening != 0);
    each += o->nesterov != 0 ? 2 : 0;
  }
  return cost_of(call, each);
}

static rg_cost adam_cost(const rg_call *call)
{
  const rg_adam_options *o = &((const rg_step_args *)call->args)->o.adam;
  double each = 3 + 4 + 6 + scaled(call); /* m + (1 - beta1) (g - m), v, p */

  if (o->weight_decay != 0) {
    each += o->decoupled != 0 ? 1 : 2;
  }
  each += o->amsgrad != 0;
  return cost_of(call, each);
}

static rg_cost lion_cost(const rg_call *call)
{
  const rg_lion_options *o = &((const rg_step_args *)call->args)->o.lion;
  double each = 1 + 2 + 2 + 3 + scaled(call); /* g - m for both momenta, sign, p */

  each += o->weight_decay != 0;
  return cost_of(call, each);
}

/* -- Records ---------------------------------------------------------------------------------- */

static const rg_arg sgd_args[] = { RG_STEP_ARGS(RG_ARG_ROW, rg_step_args, )
                                       RG_SGD_OPTIONS(RG_ARG_ROW, rg_step_args, o.sgd.) };
static const rg_arg adam_args[] = { RG_STEP_ARGS(RG_ARG_ROW, rg_step_args, )
                                        RG_ADAM_OPTIONS(RG_ARG_ROW, rg_step_args, o.adam.) };
static const rg_arg lion_args[] = { RG_STEP_ARGS(RG_ARG_ROW, rg_step_args, )
                                        RG_LION_OPTIONS(RG_ARG_ROW, rg_step_args, o.lion.) };

const rg_op rg_op_sgd_step = {
  .name = "sgd_step",
  .doc = "gradient descent over all parameters at once",
  .id = RG_OP_SGD_STEP,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("rate", NATIVE, ANY), RG_IN("count", STATE, ANY),
            RG_OPTIONAL("scale", NATIVE, ANY), RG_LIST("params", STATE, FLOAT),
            RG_LIST("grads", NATIVE, FLOAT), RG_OPTIONAL_LIST("momenta", STATE, ANY)),
  RG_ARGS(rg_step_args, sgd_args),
  .infer = infer,
  .writes = true,
  .cost = sgd_cost,
};

const rg_op rg_op_adam_step = {
  .name = "adam_step",
  .doc = "Adam or AdamW over all parameters at once",
  .id = RG_OP_ADAM_STEP,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("rate", NATIVE, ANY), RG_IN("count", STATE, ANY),
            RG_OPTIONAL("scale", NATIVE, ANY), RG_LIST("params", STATE, FLOAT),
            RG_LIST("grads", NATIVE, FLOAT), RG_LIST("m", STATE, ANY), RG_LIST("v", STATE, ANY),
            RG_OPTIONAL_LIST("most", STATE, ANY)),
  RG_ARGS(rg_step_args, adam_args),
  .infer = infer,
  .writes = true,
  .cost = adam_cost,
};

const rg_op rg_op_lion_step = {
  .name = "lion_step",
  .doc = "Lion over all parameters at once",
  .id = RG_OP_LION_STEP,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("rate", NATIVE, ANY), RG_IN("count", STATE, ANY),
            RG_OPTIONAL("scale", NATIVE, ANY), RG_LIST("params", STATE, FLOAT),
            RG_LIST("grads", NATIVE, FLOAT), RG_LIST("m", STATE, ANY)),
  RG_ARGS(rg_step_args, lion_args),
  .infer = infer,
  .writes = true,
  .cost = lion_cost,
};

/* -- Entries ---------------------------------------------------------------------------------- */

static rg_status check_inputs(const rg_op *op, const rg_step_inputs *inputs, int64_t states)
{
  if (inputs == NULL || inputs->n < 1 || inputs->param == NULL || inputs->grad == NULL) {
    return rg_fail(RG_EARG, "%s: no parameters given", op->name);
  }
  for (int64_t k = 0; k < states; k++) {
    if (inputs->state[k] == NULL) {
      return rg_fail(RG_EARG, "%s: state %lld is missing", op->name, (long long)k + 1);
    }
  }
  return RG_OK;
}

/* Put the inputs in a row and pass the dispatcher; no gradient flows through a step. */
static rg_status step(const rg_op *op, const rg_step_inputs *inputs, rg_step_args *args)
{
  enum { INLINE = 64 };
  const rg_tensor *here[INLINE];
  const rg_tensor **in = here;
  int32_t n_in;
  int32_t mode;
  rg_status status;

  args->n = inputs->n;
  n_in = rg_step_state(args, args->states, 0);
  if (n_in > INLINE) {
    in = rg_host_alloc((size_t)n_in * sizeof(*in));
    if (in == NULL) {
      return rg_fail(RG_ENOMEM, "%s: no memory for a list of %d tensors", op->name, n_in);
    }
  }
  in[RG_STEP_RATE] = inputs->rate;
  in[RG_STEP_COUNT] = inputs->count;
  in[RG_STEP_SCALE] = inputs->scale;
  for (int64_t i = 0; i < args->n; i++) {
    in[rg_step_param(i)] = inputs->param[i];
    in[rg_step_grad(args, i)] = inputs->grad[i];
    for (int64_t k = 0; k < args->states; k++) {
      in[rg_step_state(args, k, i)] = inputs->state[k][i];
    }
  }
  rg_call call = { .op = op, .in = in, .n_in = n_in, .args = args };
  rg_tensor *none = NULL;

  mode = rg_grad_mode(0);
  status = rg_run(&call, &none);
  rg_grad_mode(mode);
  if (in != here) {
    rg_host_free((void *)in);
  }
  return status;
}

rg_status rg_sgd_step(const rg_step_inputs *inputs, const rg_sgd_options *options)
{
  const rg_op *op = &rg_op_sgd_step;
  rg_step_args args = { .n = 0 };

  if (options != NULL) {
    args.o.sgd = *options;
  }
  args.states = args.o.sgd.momentum > 0 ? 1 : 0;
  RG_TRY(check_inputs(op, inputs, args.states));
  return step(op, inputs, &args);
}

rg_status rg_adam_step(const rg_step_inputs *inputs, const rg_adam_options *options)
{
  const rg_op *op = &rg_op_adam_step;
  rg_step_args args = { .n = 0 };

  if (options == NULL) {
    return rg_fail(RG_EARG, "%s: no options given", op->name);
  }
  args.o.adam = *options;
  args.states = options->amsgrad != 0 ? 3 : 2;
  RG_TRY(check_inputs(op, inputs, args.states));
  return step(op, inputs, &args);
}

rg_status rg_lion_step(const rg_step_inputs *inputs, const rg_lion_options *options)
{
  const rg_op *op = &rg_op_lion_step;
  rg_step_args args = { .states = 1 };

  if (options == NULL) {
    return rg_fail(RG_EARG, "%s: no options given", op->name);
  }
  args.o.lion = *options;
  RG_TRY(check_inputs(op, inputs, args.states));
  return step(op, inputs, &args);
}
