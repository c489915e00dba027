-- SPDX-License-Identifier: MIT
-- workspace_spec: a kernel of the GPU that wants room for numbers in between, where none is to be
-- had: which call, and how many bytes, worked out by hand.

local ffi = require 'ffi'
local ridge = require 'ridge'
local there = dofile('tests/lua/simulated.lua').open()
ffi.cdef 'int unsetenv(const char *name);'
ffi.C.setenv('RIDGE_CUDNN', 'none', 1)
ffi.C.setenv('XDG_CACHE_HOME', '', 1)

local function ones(dtype, ...) return ridge.ones(...):to(dtype):to 'sim:0' end

-- The type, [heads x queries x columns], bytes.
local CASES = {
  { 'f32', { 2, 9, 3 }, 2 * 9 * 8 }, -- a sum of each query, in f64 at most
  { 'f64', { 3, 11, 3 }, 3 * 11 * 8 },
  { 'bf16', { 2, 9, 8 }, 2 * 64 * 8 }, -- two numbers in f32, of whole tiles of 64 queries
  { 'f16', { 3, 65, 8 }, 3 * 128 * 8 },
}

describe('the gradient of attention without room for its sums', function()
  for _, case in ipairs(CASES) do
    it('says how many bytes it wanted: ' .. case[1], function()
      if not there then return pending 'no nvcc: the simulated GPU was not built' end
      local q = ones(case[1], unpack(case[2]))
      q:requires_grad_()
      local y, dy = ridge.nn.attention(q, q, q), ones(case[1], unpack(case[2]))
      local wanted = ('attention_back: the GPU has no memory left for %d bytes of workspace')
        :format(case[3])
      local said = {}
      for n = 0, 6 do -- results come before it
        ffi.C.setenv('RG_SIM_OOM_AFTER', tostring(n), 1)
        local done, e = pcall(function() y:backward(dy, { retain = true }) end)
        ffi.C.unsetenv 'RG_SIM_OOM_AFTER'
        if done then break end
        assert.are.equal('ENOMEM', e.code)
        said[#said + 1] = tostring(e.message)
      end
      local all = table.concat(said, '\n')
      assert.is_truthy(all:find(wanted, 1, true), all)
    end)
  end
end)
