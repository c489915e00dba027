-- SPDX-License-Identifier: MIT
-- records_quantize: inputs and arguments of the records of bytes, few bits and few weights, for
-- schema_spec.lua.

return {
  quantize = { 'x native, scale native, zero native?', 'axis = -1, group = 0, dtype = i8' },
  dequantize = { 'q native, scale native, zero native?', 'axis = -1, group = 0, dtype = f32' },
  quantize_rows = { 'x native', '' },
  pack_bits = { 'codes native', 'bits' },
  unpack_bits = { 'packed native', 'bits' },
  packed_linear = { 'x native, w bits, scale native, min native?, b native?, x_scale native?',
    'bits, group = 32, act = none, dtype = f32' },
  sparse_linear = { 'x native, offset index, column index, values native, b native?',
    'act = none, dtype = f32' },
  n_of_m_linear = { 'x native, index bits, values native, b native?',
    'act = none, dtype = f32, rows' },
  scaled_add = { 'a native, a_scale native, b native?, b_scale native?, y_scale native?',
    'act = none, dtype = f32, a_zero = 0, b_zero = 0, y_zero = 0' },
  scaled_pool2d = { 'x native', 'size, stride = 0, pad_low = 0, pad_high = 0, layout = nchw, ' ..
    'skip_pad = false, average = false, x_zero = 0' },
}
