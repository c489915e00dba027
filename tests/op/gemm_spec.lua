-- SPDX-License-Identifier: MIT
-- gemm_spec: products of matrices in half types by ridge's own kernels, the vendor's library not
-- wanted: shapes that tensor cores take, each factor transposed or not, and what follows in the
-- same pass.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local cases, reference, tensors = all.cases, all.reference, all.tensors
local C = tensors.C

local UNIT = { f16 = 2 ^ -10, bf16 = 2 ^ -7, f32 = 2 ^ -23 }
local ULPS = 1
local slot = ffi.new('rg_tensor *[4]')
local generator = ffi.new('rg_generator *[1]')
tensors.check(C.rg_generator_new(1, generator))

local state = 1
local function input(shape, dtype)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do
    state = (state * 1103515245 + 12345) % 2147483648
    x[i] = (math.floor(state / 65536) % 33 - 16) / 8
  end
  return x
end

-- One call of an operation; layouts: a number for each input, 1 for contiguous, 2 for transposed,
-- 4 for one that begins at an odd element, 6 for a first axis that is repeated (tensors.LAYOUTS).
local function try(name, shapes, layouts, dtype, a)
  local list, t = {}, {}
  local args = { generator = generator[0], seed = 3, offset = 5 }
  for k, v in pairs(a) do args[k] = v end
  C.rg_generator_set(generator[0], args.seed, args.offset)
  for i, shape in ipairs(shapes) do
    list[i] = shape and input(shape, dtype)
    t[i] = shape and tensors.LAYOUTS[layouts[i] or 1].make(list[i])
  end
  tensors.check(cases[name].call(C, t, args, slot))
  local got, wanted = tensors.read(tensors.hold(slot[0])), cases[name].reference(list, args)[1]
  assert.are.equal(#wanted, #got)
  for i = 1, #wanted do
    local size = math.max(math.abs(wanted[i]), wanted.magnitude and wanted.magnitude[i] or 0)
    if not (math.abs(got[i] - wanted[i]) <= (ULPS + 0.01) * UNIT[got.dtype] * size) then
      error(('element %d is %.9g, wanted %.9g'):format(i, got[i], wanted[i]), 0)
    end
  end
end

describe('a product by own kernels', function()
  local vendor
  before_each(function()
    vendor = C.rg_device_modes_now().vendor
    C.rg_device_modes_now().vendor = 0
  end)
  after_each(function()
    C.rg_device_modes_now().vendor = vendor
    tensors.release_all()
  end)

  for _, dtype in ipairs { 'bf16', 'f16' } do
    for _, shapes in ipairs {
      { { 72, 40 }, { 40, 136 } }, { { 8, 8 }, { 8, 8 } }, { { 40, 136 }, { 136, 56 } },
      { { 2, 3, 72, 24 }, { 2, 3, 24, 72 } }, { { 3, 16, 16 }, { 16, 24 } },
      { { 70, 40 }, { 40, 72 } }, { { 72, 33 }, { 33, 72 } }, { { 72, 40 }, { 40, 71 } },
    } do
      for _, layouts in ipairs { { 1, 1 }, { 1, 2 }, { 2, 1 }, { 2, 2 } } do
        it(('is right: %s, %s times %s, %d and %d'):format(dtype, table.concat(shapes[1], ' '),
          table.concat(shapes[2], ' '), unpack(layouts)), function()
          try('matmul', shapes, layouts, dtype, {})
        end)
      end
    end
    it('reads matrices that begin at any element: ' .. dtype, function()
      for _, layouts in ipairs { { 4, 1 }, { 1, 4 }, { 4, 4 } } do
        try('matmul', { { 17, 64 }, { 64, 33 } }, layouts, dtype, {})
        try('linear', { { 17, 64 }, { 64, 64 }, { 64 } }, layouts, dtype, {})
      end
    end)
    for act = 0, 6 do
      it(('goes through activation %d: %s'):format(act, dtype), function()
        try('linear', { { 70, 72 }, { 136, 72 }, { 136 } }, {}, dtype, { act = act })
        try('linear', { { 2, 33, 72 }, { 71, 72 }, false }, {}, dtype, { act = act })
      end)
    end
    it('drops what the CPU drops: ' .. dtype, function()
      for offset = 0, 3 do -- of the stream of numbers
        try('linear_dropout', { { 2, 33, 40 }, { 72, 40 }, { 72 } }, {}, dtype,
          { act = 1, p = 0.25, seed = 9, offset = offset })
      end
      -- a batch that is not one long matrix
      try('linear_dropout', { { 2, 33, 40 }, { 72, 40 }, { 72 } }, { 6 }, dtype, { p = 0.5 })
      -- rows whose numbers begin anywhere in a block of four
      try('linear_dropout', { { 70, 40 }, { 41, 40 }, { 41 } }, {}, dtype, { p = 0.5 })
    end)
  end
end)
