-- SPDX-License-Identifier: MIT
-- caps: what kernels may use of a multiprocessor, as ptxas counts it. It has 65536 registers: 64 a
-- thread leave room for 1024 threads, 128 for 512, and so for fewer loads under way at once.
--
-- A row names a kernel, or one form of it (k_sum<float>): registers, bytes of stack (spills are
-- never allowed), patterns of PTX instructions that it must have (has), and why. Where the launch
-- takes as many blocks as run side by side, what counts is not registers but how many that are:
-- `blocks` at least on a multiprocessor, of `threads` at most.

local SLOW_PATHS = 'sin and cos of large arguments have a table on the stack'
local LANES = 'four numbers of one draw are chosen from by number'
local TILES = 'a tile of scores and a row of sums are in registers'

local HELD = 'a row is held in registers, so that it is read once'
local NEXT = HELD .. ', and the next is on its way'
local TENSOR = 'tiles of sums for tensor cores; mma.cuh'
local CORES = { 'mma%.sync', 'ldmatrix', 'cp%.async' }
local TF32 = { 'mma%.sync%.aligned%.m16n8k8', 'cvt%.rna%.tf32', 'cp%.async' }
local SIXTEEN = 'sixteen elements of one byte a thread'

local TEN = 'ten windows, with their places, and eight sums'

local AXES = 'up to eight axes with strides, and sums in a wider type'

local caps = {
  default = { registers = 64, stack = 0 },

  k_attention = { registers = 168, why = TILES },
  k_attention_back = { registers = 255, why = TILES .. '; of two gradients' },
  k_pool2d = { registers = 72, why = 'windows in two axes with strides, paddings and places' },
  k_pool2d_back = { registers = 80, why = 'the same, with the windows that hold one element' },
  ['k_pool2d_back<double, 2, long, true>'] = { registers = 88, why = 'the same, in 64 bits' },
  ['k_pool_lines_back<__nv_bfloat16, 1, true>'] = { registers = 80, why = TEN },
  ['k_pool_lines_back<__half, 1, true>'] = { registers = 80, why = TEN },
  k_loss = { registers = 72, why = 'strides of three tensors, and sums in two precisions' },
  k_fold = { registers = 72, why = AXES },
  k_norm_again = { registers = 80, why = AXES },
  k_softmax = { registers = 80, why = AXES },
  k_softmax_back = { registers = 88, why = AXES },
  k_take_back = { registers = 76, why = AXES },
  k_take_back_sorted = { registers = 80, why = AXES .. '; four rows under way' },

  ['k_take_back<double, 1>'] = { registers = 88, why = AXES },
  ['k_take_back_sorted<double, 1>'] = { registers = 96, why = AXES .. '; four rows under way' },
  ['k_take_back_sorted<double, 2>'] = { registers = 88, why = AXES .. '; four rows under way' },

  k_attention_mma = { registers = 168, has = CORES, why = TENSOR },
  k_attention_mma_back = { registers = 232, has = CORES, why = TENSOR .. '; of two gradients' },
  ['k_attention_mma_back<__nv_bfloat16, 128, true, true, false>'] = { registers = 240, has = CORES,
    why = TENSOR .. '; of two gradients, with a mask' },
  k_gemm = { registers = 168, has = CORES, why = TENSOR },
  k_scaled_mma = { registers = 168, has = CORES, why = TENSOR },
  ['k_scaled_mma<rg_bytes, int>'] = { registers = 168, why = TENSOR .. '; of bytes',
    has = { 'mma%.sync%.aligned%.m16n8k32', 'ldmatrix', 'cp%.async' } },
  k_sketch_halves = { registers = 168, has = CORES, why = TENSOR },
  k_sketch_f32 = { registers = 168, why = 'eight times eight sums a thread' },

  k_softmax_held = { registers = 96, threads = 256, blocks = 2, why = NEXT },
  k_softmax_back_held = { registers = 88, threads = 256, blocks = 2, why = HELD },
  ['k_softmax_back_held<double>'] = { registers = 128, threads = 256, blocks = 2, why = HELD },
  k_layer_norm_back_held = { registers = 128, threads = 512, blocks = 1,
    why = 'two rows are held and two on their way, beside sums of columns' },
  k_columns = { registers = 80, why = 'sums of two columns, each of two gradients' },

  ['k_steps<double, 1>'] = { registers = 88, why = 'three states in double' },
  ['k_step<double, 1>'] = { registers = 72, why = 'three states in double' },
  ['k_arange<rg_bool>'] = { registers = 72, why = SIXTEEN },
  ['k_binary<rg_bool>'] = { registers = 72, why = SIXTEEN },
  ['k_binary<unsigned char>'] = { registers = 72, why = SIXTEEN },
  ['k_binary<signed char>'] = { registers = 72, why = SIXTEEN },
  ['k_where<unsigned char>'] = { registers = 80, why = SIXTEEN .. ', of three tensors' },
  ['k_compare<rg_bool>'] = { registers = 72, why = SIXTEEN },
  ['k_compare<unsigned char>'] = { registers = 72, why = SIXTEEN },
  ['k_compare<signed char>'] = { registers = 72, why = SIXTEEN },

  k_fused = { stack = 40, has = { 'ld%.global%.v4', 'st%.global%.v4' }, why = SLOW_PATHS },
  k_epilogue_f64 = { stack = 16, why = LANES },
  k_unary = { stack = 40, why = SLOW_PATHS },
  k_unary_flat = { stack = 40, why = SLOW_PATHS },
  k_unary_wide = { stack = 40, why = SLOW_PATHS },
  k_product = { stack = 16, why = LANES .. ': which elements dropout keeps' },
  k_uniform = { stack = 16, why = LANES },
  k_normal = { stack = 16, why = LANES },
  k_randint = { stack = 16, why = LANES },
  k_signs = { stack = 16, why = LANES },
  k_dropout = { stack = 16, why = LANES },
}

for _, drops in ipairs { 'false', 'true' } do
  local function cap(form, row) caps[('k_attention<%s, %s>'):format(form, drops)] = row end
  cap('float, 1', { registers = 168, has = { 'cp%.async' }, why = TILES })
  cap('float, 2', { registers = 216, has = { 'cp%.async' }, why = TILES })
  cap('double, 2', { registers = 224, why = TILES .. ', twice as wide' })
end
for _, half in ipairs { '__half', '__nv_bfloat16' } do
  caps[('k_attention<%s, 2, true>'):format(half)] = { registers = 176,
    why = TILES .. '; with dropout' }
end

-- Rows that layer normalisation and softmax hold: as many blocks as their launches count on
-- (`resident` in gpu/norm.cu, `rg_resident` in gpu/rows.cuh), by packs a thread.
for _, of in ipairs { { 2, 64, 4 }, { 4, 80, 3 }, { 8, 88, 2 } } do
  local packs, registers, blocks = unpack(of)
  for _, types in ipairs { 'float, float, float', 'double, double, double',
    '__half, __half, __half', '__half, float, __half', '__half, float, float',
    '__nv_bfloat16, __nv_bfloat16, __nv_bfloat16', '__nv_bfloat16, float, __nv_bfloat16',
    '__nv_bfloat16, float, float' } do
    if packs < 8 or not types:find '_' then -- eight packs of halves are too many
      caps[('k_layer_norm_held<%s, %d>'):format(types, packs)] = { registers = registers,
        threads = 256, blocks = blocks, why = packs < 8 and NEXT or HELD }
    end
  end
end
for _, types in ipairs { 'float, float', 'double, double', '__half, __half', '__half, float',
  '__nv_bfloat16, __nv_bfloat16', '__nv_bfloat16, float' } do
  caps[('k_softmax_held<%s, 2>'):format(types)] = { registers = 80, threads = 256, blocks = 3,
    why = NEXT }
end

-- Attention in f32 where TF32 is allowed: factors are single floats, so ldmatrix has no part in it.
-- With dropout, the second of the two, there is a mask as well, if it is NULL.
for _, seen in ipairs { 'false, false', 'true, false', 'true, true' } do
  local drops = seen == 'true, true'
  for _, half in ipairs { '__half', '__nv_bfloat16' } do
    caps[('k_attention_mma<%s, 256, %s>'):format(half, seen)] = { registers = 248, has = CORES,
      why = TENSOR }
    if drops then -- two blocks of a multiprocessor leave 256 registers a thread
      caps[('k_attention_mma_back<%s, 128, true, %s>'):format(half, seen)] = { registers = 240,
        has = CORES, why = TENSOR .. '; of two gradients, with dropout' }
    end
  end
  for _, wide in ipairs { 64, 128 } do
    caps[('k_attention_mma<float, %d, %s>'):format(wide, seen)] = {
      registers = drops and 168 or 152, has = TF32, why = TENSOR }
    for _, by_keys in ipairs { 'false', 'true' } do
      caps[('k_attention_mma_back<float, %d, %s, %s>'):format(wide, by_keys, seen)] = {
        registers = drops and wide == 128 and 224 or 208, has = TF32,
        why = TENSOR .. '; of two gradients' }
    end
  end
end

return caps
