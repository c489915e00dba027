-- SPDX-License-Identifier: MIT
-- device_spec: what op_spec's own numbers do not reach: matrices at the edges of their range, and
-- what a device finds wrong only while it computes.

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local reference, tensors = all.reference, all.tensors
local C = tensors.C
local EARG = -4
local UNIT = { f32 = 2 ^ -23, f64 = 2 ^ -52 }

tensors.check(C.rg_device_open(tensors.DEVICE))

-- Numbers in (-1, 1), the same in every run.
local state = 7
local function number()
  state = (state * 1103515245 + 12345) % 2147483648
  return state / 1073741824 - 1
end

local function matrix(m, n, dtype, f)
  local x = reference.new({ m, n }, dtype)
  for i = 0, m - 1 do
    for j = 0, n - 1 do x[i * n + j + 1] = reference.convert(f(i, j), dtype) end
  end
  return x
end

local out = ffi.new('rg_tensor *[3]')
local function svd(x)
  local status = C.rg_svd(tensors.make(x, x.shape, x.dtype), out, out + 1, out + 2)
  tensors.check(status)
  local results = {}
  for i = 1, 3 do results[i] = tensors.hold(out[i - 1]) end
  return results
end

local function check(x, ulps)
  local read = {}
  for i, result in ipairs(svd(x)) do read[i] = tensors.read(result) end
  for property, distance in pairs(reference.check_svd({ x }, read)) do
    assert.is_true(distance <= ulps * UNIT[x.dtype],
      ('%s: %s is off by %g'):format(x.dtype, property, distance / UNIT[x.dtype]))
  end
  return read
end

describe('svd', function()
  after_each(tensors.release_all)
  local there = tensors.DEVICE == 0
  for i = 0, C.rg_op_count() - 1 do
    local facts = ffi.new('rg_op_facts')
    tensors.check(C.rg_op_facts_of(i, facts))
    if ffi.string(facts.name) == 'svd' then
      there = there or C.rg_op_runs_on(i, tensors.DEVICE) == 1
    end
  end

  it('runs here', function() assert.is_true(there) end)

  it('takes more vectors than one block turns', function()
    for _, dtype in ipairs { 'f32', 'f64' } do
      check(matrix(67, 70, dtype, number), 128)
    end
  end)

  it('gives whole bases of matrices without full rank', function()
    for _, dtype in ipairs { 'f32', 'f64' } do
      check(matrix(6, 4, dtype, function() return 0 end), 64)
      check(matrix(5, 9, dtype, function(i, j) return i == 2 and j + 1 or 0 end), 64)
      check(matrix(9, 7, dtype, function(i, j) return (i + 1) * (j - 3) + i end), 64)
    end
  end)

  it('knows sizes at the edges of the range', function()
    for _, size in ipairs { 2 ^ 120, 2 ^ -120, 2 ^ -140 } do
      local x = matrix(7, 5, 'f32', function() return number() * size end)
      local s = check(x, size < 2 ^ -130 and 2 ^ 16 or 64)[2]
      assert.is_true(s[1] > size / 4 and s[1] < size * 6)
    end
    check(matrix(7, 5, 'f64', function() return number() * 2 ^ -1000 end), 64)
    check(matrix(7, 5, 'f64', function() return number() * 2 ^ 1000 end), 64)
  end)

  it('separates values far apart', function()
    for dtype, step in pairs { f32 = 2 ^ -12, f64 = 2 ^ -40 } do
      check(matrix(8, 6, dtype, function(_, j) return number() * step ^ j end), 64)
    end
  end)

  it('refuses what is not finite', function()
    for _, wrong in ipairs { 0 / 0, math.huge } do
      local x = matrix(4, 3, 'f32', function(i, j) return i == 2 and j == 1 and wrong or 1 end)
      local t = tensors.make(x, x.shape, x.dtype)
      local status = C.rg_svd(t, out, out + 1, out + 2)
      if tensors.DEVICE ~= 0 then
        tensors.check(status)
        for i = 1, 3 do tensors.hold(out[i - 1]) end
        status = C.rg_device_wait(tensors.DEVICE)
      end
      assert.are.equal(EARG, status)
      assert.is_truthy(tensors.failure(status):find('nan or infinity', 1, true))
    end
  end)
end)

-- The CPU follows such an index; a device, which gathers, has no place for it.
if tensors.DEVICE ~= 0 then
  describe('max_pool2d_back', function()
    it('says which index does not lie in its window', function()
      local o = ffi.new('rg_pool2d_options')
      o.size[0], o.size[1], o.stride[0], o.stride[1] = 2, 2, 2, 2
      local dy = tensors.make({ 1, 2 }, { 1, 1, 1, 2 }, 'f32')
      local index = tensors.make({ 2, 7 }, { 1, 1, 1, 2 }, 'i32')
      tensors.check(C.rg_max_pool2d_back(dy, index, 2, 4, o, out))
      tensors.hold(out[0])
      local status = C.rg_device_wait(tensors.DEVICE)
      assert.are.equal(EARG, status)
      assert.is_truthy(tensors.failure(status):find('met index 2, not in its window', 1, true))
      tensors.release_all()
    end)
  end)
end
