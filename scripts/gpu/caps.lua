-- SPDX-License-Identifier: MIT
-- caps: what kernels may use of a multiprocessor, as ptxas counts it. It has 65536 registers: 64 a
-- thread leave room for 1024 threads, 128 for 512, and so for fewer loads under way at once.
--
-- A row names a kernel, or one form of it (k_sum<float>): registers, bytes of stack (spills are
-- never allowed), patterns of PTX instructions that it must have (has), and why.

local SLOW_PATHS = 'sin and cos of large arguments have a table on the stack'
local LANES = 'four numbers of one draw are chosen from by number'
local TILES = 'a tile of scores and a row of sums are in registers'

local AXES = 'up to eight axes with strides, and sums in a wider type'

return {
  default = { registers = 64, stack = 0 },

  k_attention = { registers = 128, why = TILES },
  k_keys = { registers = 168, why = TILES .. '; of two gradients' },
  k_queries = { registers = 168, why = TILES },
  ['k_queries<double>'] = { registers = 248, why = TILES .. ', twice as wide' },
  k_pool2d = { registers = 88, why = 'windows in two axes with strides, paddings and places' },
  k_pool2d_back = { registers = 96, why = 'the same, with the windows that hold one element' },
  k_loss = { registers = 80, why = 'strides of three tensors, and sums in two precisions' },
  k_fold = { registers = 72, why = AXES },
  k_norm_again = { registers = 80, why = AXES },
  k_softmax = { registers = 80, why = AXES },
  k_softmax_back = { registers = 88, why = AXES },
  k_take_back = { registers = 76, why = AXES },

  k_unary = { stack = 40, why = SLOW_PATHS },
  k_unary_wide = { stack = 40, why = SLOW_PATHS },
  k_product = { stack = 16, why = LANES .. ': which elements dropout keeps' },
  k_uniform = { stack = 16, why = LANES },
  k_normal = { stack = 16, why = LANES },
  k_randint = { stack = 16, why = LANES },
  k_signs = { stack = 16, why = LANES },
  k_dropout = { stack = 16, why = LANES },
}
