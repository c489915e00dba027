/* SPDX-License-Identifier: MIT */
/*
** Chains of one or two products: rows in, rows out, and the middle between them.
*/
#include "cpu/chain.h"
#include "cpu/rows.h"

/* The type sums are kept in and factors are read in, from the type of the result. */
static int32_t compute_of(int32_t dtype)
{
  return dtype == RG_F64 ? RG_F64 : dtype == RG_BF16 ? RG_BF16 : RG_F32;
}

static rg_status run_products(const rg_chain *chain, const rg_rows *x, const rg_rows *y,
                              void *middle, int32_t dtype, rg_frame *frame)
{
  rg_product p = { .m = x->count,
                   .n = chain->b[0].n,
                   .k = chain->b[0].k,
                   .compute = compute_of(dtype),
                   .a = x->data,
                   .a_dtype = x->tensor->_dtype,
                   .a_row = x->row,
                   .a_col = x->col,
                   .b = chain->b[0] };

  if (chain->n == 2) {
    p.c = middle;
    p.c_dtype = dtype;
    p.c_row = p.n;
    p.end = (rg_end){ .scale = 1 };
    RG_TRY(rg_product_run(&p, NULL));
    p.a = middle;
    p.a_dtype = dtype;
    p.a_row = p.n;
    p.a_col = 1;
    p.k = p.n;
    p.n = chain->b[1].n;
    p.b = chain->b[1];
  }
  p.c = y->data;
  p.c_dtype = dtype;
  p.c_row = y->row;
  p.end = chain->end;
  return rg_product_run(&p, &frame->path);
}

rg_status rg_chain_run(const rg_chain *chain, const rg_call *call, rg_tensor *const *out,
                       rg_frame *frame)
{
  int32_t dtype = out[0]->_dtype;
  rg_rows x = { 0 };
  rg_rows y = { 0 };
  rg_block middle = { 0 };
  void *z = call->n_out > 1 ? out[1]->_data : NULL;
  rg_status status = rg_rows_begin(call->in[0], &x);

  if (status == RG_OK) {
    status = rg_rows_begin_out(out[0], &y);
  }
  if (status == RG_OK && chain->n == 2 && z == NULL && x.count * chain->b[0].n > 0) {
    status = rg_block_alloc(RG_CPU, x.count * chain->b[0].n * rg_dtype_bytes(dtype), &middle);
    z = middle.data;
  }
  if (status == RG_OK) {
    status = run_products(chain, &x, &y, z, dtype, frame);
  }
  if (middle.data != NULL) {
    rg_block_free(&middle);
  }
  rg_rows_end(&y, status == RG_OK);
  rg_rows_end(&x, false);
  return status;
}
