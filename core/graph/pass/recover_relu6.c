/* SPDX-License-Identifier: MIT */
/*
** ReLU6 out of its pieces, in either order:
**
**   minimum(relu(x), 6)       relu6(x)
**   minimum(maximum(x, 0), 6)
**
** clamp(x, 0, 6) and ONNX's Clip are the second.  Bits stay, nan among them, but for one: maximum
** makes 0 of -0, and relu6 leaves it.  Where somebody else reads what lies between, which the
** backward pass of the pieces does, they stay.
*/
#include "graph/pass/recover.h"
#include "op/list.h"

/* Is a node relu, or no less than 0?  Then of what. */
static int32_t of_relu(const rg_recover *f, const rg_ir_node *node)
{
  double number = 0;
  int32_t x;

  if (node != NULL && node->op->id == RG_OP_RELU) {
    return rg_recover_in(f, node, 0);
  }
  x = rg_recover_number(f, node, RG_OP_MAXIMUM, &number);
  return x >= 0 && number == 0 ? x : RG_IR_NONE;
}

/* Is it no more than 6? */
static int32_t of_six(const rg_recover *f, const rg_ir_node *node)
{
  double number = 0;
  int32_t x = rg_recover_number(f, node, RG_OP_MINIMUM, &number);

  return x >= 0 && number == 6 ? x : RG_IR_NONE;
}

int32_t rg_recover_relu6(const rg_recover *f)
{
  int32_t between = of_six(f, f->end);
  const bool cut = between >= 0;

  between = cut ? between : of_relu(f, f->end);
  if (between < 0) {
    return RG_IR_NONE;
  }
  const rg_ir_value *v = rg_ir_value_at(f->g, between);
  const rg_ir_node *inner = rg_recover_maker(f, between);

  if (v->n_uses != 1 || inner == NULL ||
      !rg_meta_same(&v->meta, &rg_ir_value_at(f->g, rg_ir_outputs(f->g, f->end)[0])->meta)) {
    return RG_IR_NONE;
  }
  return cut ? of_relu(f, inner) : of_six(f, inner);
}
