-- SPDX-License-Identifier: MIT
-- attention_spec: attention and its gradients in half types and TF32 through the tape, so that the
-- sums which the forward kernel keeps are what the gradients are computed from; heads of the widths
-- that tensor cores take, and lengths on both sides of their tiles; with dropout of the weights and
-- without.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local reference, tensors = all.reference, all.tensors
local C = tensors.C

local UNIT = { f16 = 2 ^ -10, bf16 = 2 ^ -7, tf32 = 2 ^ -10 }
local ULPS = 2
local slot = ffi.new('rg_tensor *[2]')
local generator = ffi.new 'rg_generator *[1]'
tensors.check(C.rg_generator_new(1, generator))

local state = 1
local function input(shape, dtype)
  local x = reference.new(shape, dtype)
  for i = 1, reference.count(shape) do
    state = (state * 1103515245 + 12345) % 2147483648
    x[i] = (math.floor(state / 65536) % 33 - 16) / 32
  end
  return x
end

-- The ways that attention takes on a device, forward and back, of the events while f runs.
local function way(f)
  local found, back
  for _, event in ipairs(tensors.events(f)) do
    local name = event[1]:gsub('_dropout', '')
    if name == 'attention' then found = event[2] end
    if name == 'attention_back' then back = event[2] end
  end
  return found, back
end

local function of(lead, rows, cols)
  local shape = { unpack(lead) }
  shape[#shape + 1], shape[#shape + 2] = rows, cols
  return shape
end

local function near(result, wanted, unit, what)
  local got = tensors.read(result)
  for i = 1, #wanted do
    local size = math.max(wanted.magnitude[i], math.abs(wanted[i]))
    if not (math.abs(got[i] - wanted[i]) <= (ULPS + 0.01) * unit * size) then
      error(('%s: element %d is %.9g, wanted %.9g'):format(what, i, got[i], wanted[i]), 0)
    end
  end
end

-- Forward, then back; y, dq, dk, dv as tensors. With args.p: dropout, by the numbers of args.seed
-- from args.offset on.
local function pass(list, dy, args)
  local t = {}
  for i, x in ipairs(list) do
    t[i] = tensors.LAYOUTS[1].make(x)
    tensors.check(C.rg_require_grad(t[i], 1))
  end
  if args.p then
    args.generator = generator[0]
    C.rg_generator_set(generator[0], args.seed, args.offset)
  end
  tensors.check(all.cases[args.p and 'attention_dropout' or 'attention'].call(C, t, args, slot))
  local results = { tensors.hold(slot[0]) }
  tensors.check(C.rg_backward(results[1], tensors.LAYOUTS[1].make(dy), 0))
  for i = 1, 3 do
    tensors.check(C.rg_grad_of(t[i], slot))
    results[i + 1] = tensors.hold(slot[0])
  end
  return results
end

local CASES = {
  { { 2 }, 70, 75, 64, 64 }, { { 2 }, 129, 65, 64, 64, causal = true },
  { { 1, 2 }, 65, 130, 128, 128, causal = true }, { {}, 40, 33, 96, 96 },
  { { 2 }, 17, 17, 32, 24, causal = true, scale = 0.5 }, { {}, 1, 1, 8, 8 },
  -- rows of numbers that begin at multiples of four and between them
  { { 2 }, 70, 75, 64, 64, p = 0.3, seed = 5, offset = 1 },
  { { 3 }, 66, 72, 64, 64, p = 0.75, seed = 2 ^ 40 + 7, offset = 4, causal = true },
  { { 1, 2 }, 65, 130, 128, 128, p = 0.125, seed = 6, offset = 3, causal = true },
  { { 2 }, 33, 17, 32, 24, p = 0.5, seed = 7, offset = 2, scale = 0.5 },
}

describe('attention in half types', function()
  after_each(function() tensors.release_all() end)

  for _, case in ipairs(CASES) do
    local lead, n, m, d, e = unpack(case, 1, 5)
    for _, dtype in ipairs { 'bf16', 'f16' } do
      local what = ('%s, %d heads, %d x %d, %d and %d wide%s'):format(dtype,
        reference.count(lead), n, m, d, e, (case.causal and ', causal' or '')
        .. (case.p and ', dropout' or ''))
      it('has the gradients of its own forward pass: ' .. what, function()
        local list = { input(of(lead, n, d), dtype), input(of(lead, m, d), dtype),
          input(of(lead, m, e), dtype) }
        local dy = input(of(lead, n, e), dtype)
        local results
        local path, back = way(function() results = pass(list, dy, case) end)
        -- without dropout cuDNN plans what comes again
        if tensors.DEVICE ~= 0 and case.p then
          assert.are.same({ 'tensor cores', 'tensor cores' }, { path, back })
        end
        local y, lse = reference.attention(list, case)[1], reference.lse(list, case)
        near(results[1], y, UNIT[dtype], 'y')
        local wanted = reference.attention_back({ list[1], list[2], list[3], y, lse, dy }, case)
        for i, name in ipairs { 'dq', 'dk', 'dv' } do
          near(results[i + 1], wanted[i], UNIT[dtype], name)
        end
      end)
    end
  end

  it('has gradients where all scores are far below zero', function()
    local list, y = {}, 0.5
    for i = 1, 3 do
      list[i] = reference.new({ 33, 64 }, 'bf16')
      for j = 1, 33 * 64 do list[i][j] = i == 1 and 2 or i == 2 and -2 or y end
    end
    local dy = input({ 33, 64 }, 'bf16')
    -- scores of -256: equal weights, and so no dq, dk
    for i, result in ipairs(pass(list, dy, { scale = 1 })) do
      local got = tensors.read(result)
      for j = 1, 33 * 64 do
        if i == 1 then assert.are.equal(y, got[j]) end
        if i == 2 or i == 3 then assert.is_true(math.abs(got[j]) < 1e-2) end
        if i == 4 then assert.are.equal(got[(j - 1) % 64 + 1], got[j]) end
      end
    end
  end)

  -- The last key's weight is e^-13 / 15, two and a half steps of f16 down there; a loss scale has
  -- lifted dy, and so what belongs to that key.
  it('keeps the places of small weights in f16', function()
    local list, n, d = {}, 16, 16
    for i = 1, 3 do list[i] = input({ n, d }, 'f16') end
    for i = 0, n - 1 do
      for l = 1, d do list[1][i * d + l], list[2][i * d + l] = l == 1 and 4 or 0, 0 end
    end
    list[2][(n - 1) * d + 1] = -3.25
    local dy = input({ n, d }, 'f16')
    for i = 1, n * d do dy[i] = dy[i] * 4096 + 1000 end
    local case = { scale = 1 }
    local results = pass(list, dy, case)
    local y, lse = reference.attention(list, case)[1], reference.lse(list, case)
    local wanted = reference.attention_back({ list[1], list[2], list[3], y, lse, dy }, case)[3]
    local got = tensors.read(results[4])
    for i = (n - 1) * d + 1, n * d do
      assert.is_true(math.abs(got[i] / wanted[i] - 1) < 2 ^ -8, got[i] .. ' ' .. wanted[i])
    end
  end)

  it('gives the same bits every time', function()
    local list = { input({ 2, 70, 64 }, 'bf16'), input({ 2, 70, 64 }, 'bf16'),
      input({ 2, 70, 64 }, 'bf16') }
    local dy = input({ 2, 70, 64 }, 'bf16')
    -- else cuDNN plans what comes again: the second call may go another way
    C.rg_device_modes_now().deterministic = 1
    local first, second = pass(list, dy, {}), pass(list, dy, {})
    C.rg_device_modes_now().deterministic = 0
    for i = 1, 4 do assert.is_true(tensors.bytes(first[i]) == tensors.bytes(second[i])) end
  end)

  it('goes by tensor cores where a mask has blocks of 16 and more', function()
    if tensors.DEVICE == 0 then return end
    local function masked(block, grid, dtype)
      local list, mask = {}, {}
      for i = 1, 3 do
        local x = input({ 40, 16 }, dtype)
        list[i] = tensors.make(x, x.shape, dtype)
      end
      for i = 1, grid * grid do mask[i] = i % 2 end
      local case = { mask = mask, grid = { grid, grid }, block = block }
      local out = ffi.new 'rg_tensor *[1]'
      return (way(function()
        tensors.check(all.cases.attention.call(C, list, case, out))
        tensors.hold(out[0])
      end))
    end
    assert.are.equal('tensor cores', masked(16, 3, 'bf16'))
    assert.are.equal('tensor cores', masked(64, 1, 'f16'))
    assert.are.equal('tiles', masked(15, 3, 'bf16'))
    assert.are.equal('tiles', masked(16, 3, 'f32'))
  end)
end)

-- On a CPU the mode changes nothing.
describe('attention in TF32', function()
  local modes = C.rg_device_modes_now()

  after_each(function()
    modes.tf32 = 0
    tensors.release_all()
  end)

  -- Blocks of 17 by 17, in no row or column the same; queries 34 to 50 see nothing.
  local STRIPES = { mask = {}, grid = { 8, 9 }, block = 17 }
  for i = 0, 71 do
    local row = math.floor(i / 9)
    STRIPES.mask[i + 1] = row ~= 2 and (i * 7 + row) % 3 ~= 0 and 1 or 0
  end

  local function with(case, more)
    for key, value in pairs(more) do case[key] = value end
    return case
  end

  for _, case in ipairs {
    { { 2 }, 70, 75, 64, 64 }, { { 2 }, 129, 65, 64, 36, causal = true },
    { { 1, 2 }, 65, 130, 128, 128, causal = true }, { {}, 40, 33, 68, 100 },
    { { 2 }, 17, 17, 32, 24, causal = true, scale = 0.5 }, { {}, 1, 1, 4, 4 },
    with({ {}, 130, 140, 20, 64 }, STRIPES),
    with({ {}, 130, 140, 124, 72, causal = true }, STRIPES),
    { { 2 }, 70, 75, 64, 64, p = 0.3, seed = 5, offset = 1 },
    { { 2 }, 129, 68, 64, 36, causal = true, p = 0.5, seed = 2 ^ 40 + 7, offset = 4 },
    { {}, 65, 130, 128, 128, causal = true, p = 0.125, seed = 6, offset = 3 },
    with({ { 2 }, 130, 140, 20, 64, p = 0.4, seed = 7, offset = 2 }, STRIPES),
  } do
    local lead, n, m, d, e = unpack(case, 1, 5)
    local what = ('%d heads, %d x %d, %d and %d wide%s%s'):format(reference.count(lead), n, m, d, e,
      case.causal and ', causal' or '', (case.mask and ', masked' or '')
      .. (case.p and ', dropout' or ''))
    it('has the gradients of its own forward pass: ' .. what, function()
      modes.tf32 = 1
      local list = { input(of(lead, n, d), 'f32'), input(of(lead, m, d), 'f32'),
        input(of(lead, m, e), 'f32') }
      local dy, results = input(of(lead, n, e), 'f32'), nil
      local path, back = way(function() results = pass(list, dy, case) end)
      if tensors.DEVICE ~= 0 then
        assert.are.same({ 'tensor cores', 'tensor cores' }, { path, back })
      end
      local y, lse = reference.attention(list, case)[1], reference.lse(list, case)
      near(results[1], y, UNIT.tf32, 'y')
      local wanted = reference.attention_back({ list[1], list[2], list[3], y, lse, dy }, case)
      for i, name in ipairs { 'dq', 'dk', 'dv' } do
        near(results[i + 1], wanted[i], UNIT.tf32, name)
      end
    end)
  end

  local function path_of(d, e)
    local list = { input({ 5, d }, 'f32'), input({ 6, d }, 'f32'), input({ 6, e }, 'f32') }
    return (way(function() pass(list, input({ 5, e }, 'f32'), {}) end))
  end

  it('is for heads of at most 128 columns in fours, and only where it is allowed', function()
    if tensors.DEVICE == 0 then return end
    modes.tf32 = 1
    assert.are.equal('tensor cores', path_of(128, 4))
    for _, wide in ipairs { { 132, 4 }, { 4, 132 }, { 6, 4 }, { 4, 2 } } do
      assert.are.equal('tiles', path_of(unpack(wide)))
    end
    modes.tf32 = 0
    assert.are.equal('tiles', path_of(128, 4))
  end)

  -- One key, whose weight is 1: the result is the value with 10 bits of fraction.
  it('rounds factors to the nearest', function()
    if tensors.DEVICE == 0 then return end
    local list, bit = {}, 2 ^ -10
    for i = 1, 3 do list[i] = reference.new({ 1, 4 }, 'f32') end
    for i, x in ipairs { 1 + bit / 2, -1 - bit / 2, 1 + bit * 3 / 8, 1 + bit * 7 / 8 } do
      list[1][i], list[2][i], list[3][i] = 1, 1, x
    end
    local function rounded()
      return { unpack(tensors.read(pass(list, input({ 1, 4 }, 'f32'), {})[1])) }
    end
    modes.tf32 = 1
    assert.are.same({ 1 + bit, -1 - bit, 1, 1 + bit }, rounded())
    modes.tf32 = 0
    assert.are.equal(1 + bit * 3 / 8, rounded()[3])
  end)
end)
