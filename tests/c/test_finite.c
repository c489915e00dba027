/* SPDX-License-Identifier: MIT */
/*
** Numbers that are not finite: in each element of tensors with gaps, on the host and on a device,
** and not beside them; and what an operation is blamed for.
*/
#include "op/op.h"
#include "ridge.h"
#include "driver.h"
#include "tap.h"

enum { DEVICE = 3, ROWS = 3, COLS = 5 };

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static const rg_driver driver = {
  .take = host_take, .give = host_give, .lost = host_done, .copy = host_copy
};

/* Rows 1 and 2 of columns 1 to 3, with one number of the storage that is not finite. */
static void test_each(int32_t device, int32_t dtype, double number)
{
  const int64_t shape[2] = { ROWS, COLS };
  const float zeros[ROWS * COLS * 2] = { 0 };
  rg_tensor *x = NULL;
  rg_tensor *some = NULL;
  rg_tensor *part = NULL;
  bool right = true;

  must(rg_empty(dtype, device, shape, 2, &x));
  must(rg_tensor_write(x, zeros, x->_count * rg_dtype_bytes(dtype)));
  must(rg_narrow(x, 0, 1, 2, 1, &some));
  must(rg_narrow(some, 1, 1, 3, 1, &part));
  ok(rg_is_finite(x) && rg_is_finite(part), "zeros are finite");
  for (int64_t i = 0; i < ROWS * COLS; i++) {
    const int64_t at[2] = { i / COLS, i % COLS };
    const bool inside = at[0] >= 1 && at[1] >= 1 && at[1] <= 3;

    must(rg_tensor_set(x, at, 2, number));
    right = right && !rg_is_finite(x) && rg_is_finite(part) == !inside;
    must(rg_tensor_set(x, at, 2, 0));
  }
  ok(right, "one that is not is found where it is, and nowhere else");
  rg_tensor_release(part);
  rg_tensor_release(some);
  rg_tensor_release(x);
}

static void test_blame(void)
{
  const int64_t shape[1] = { 4 };
  rg_tensor *x = NULL;
  rg_tensor *y = NULL;
  rg_tensor *z = NULL;

  must(rg_empty(RG_F32, RG_CPU, shape, 1, &x));
  must(rg_fill_(x, 0));
  is_int(rg_grad_anomaly(1), 0, "nothing was asked before");
  is_int(rg_grad_anomaly(1), 1, "now it is");
  is_status(rg_log(x, &y), RG_ENAN, "what makes an infinity is blamed");
  is_status(rg_fill_(x, INFINITY), RG_OK, "what is filled with one was meant");
  is_status(rg_neg(x, &z), RG_OK, "and so is what comes of one");
  is_int(rg_grad_anomaly(0), 1, "nobody asks any more");
  must(rg_fill_(x, 0));
  is_status(rg_log(x, &y), RG_OK, "and nobody is blamed");
  rg_tensor_release(z);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

int main(void)
{
  static const int32_t types[] = { RG_F32, RG_F64, RG_F16, RG_BF16 };

  rg_driver_register(DEVICE, &driver);
  for (int32_t i = 0; i < 4; i++) {
    test_each(RG_CPU, types[i], NAN);
    test_each(RG_CPU, types[i], -INFINITY);
    test_each(DEVICE, types[i], INFINITY);
  }
  test_blame();
  return done();
}
