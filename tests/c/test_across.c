/* SPDX-License-Identifier: MIT */
/*
** Which products copy a transposed input in blocks of rows: those where its lines would be gone
** before they are read again. Without, they give the same numbers, in up to 1.8 times the time.
*/
#include "cpu/path.h"
#include "tap.h"

int main(void)
{
  static const struct {
    int64_t m, k, row, col;
    bool blocks;
    const char *what;
  } cases[] = { { 64, 256, 1, 65, false, "as many steps as are read in place" },
                { 64, 257, 1, 65, true, "one more" },
                { 64, 16, 1, 1024, true, "few, whose lines fall into one set" },
                { 64, 16, 1, 1025, false, "and into others" },
                { 64, 300, 300, 1, false, "rows" },
                { 1, 300, 1, 1024, false, "one row" } };
  static const float number = 0;

  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    rg_ready r = { .p = { .m = cases[i].m,
                          .n = 32,
                          .k = cases[i].k,
                          .compute = RG_F32,
                          .n_threads = 1,
                          .a = &number,
                          .a_row = cases[i].row,
                          .a_col = cases[i].col,
                          .a_dtype = RG_F32,
                          .c_dtype = RG_F32,
                          .epilogue = { .scale = 1 } } };

    r.p.b = (rg_weight){ .k = r.p.k, .n = r.p.n, .split_k = r.p.k, .split_n = r.p.n };
    r.p.b.piece[0] = (rg_piece){ .data = &number, .dtype = RG_F32, .row = r.p.n, .col = 1 };
    is_status(rg_product_prepare_path(&r, RG_GEMM_OWN), RG_OK, "ridge's own path");
    ok(r.gemm.blocks == cases[i].blocks, cases[i].what);
    rg_product_end(&r);
  }
  return done();
}
