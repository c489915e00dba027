-- SPDX-License-Identifier: MIT
--- Paying memory debt calls who watches memory, in the middle of a call: where it calls the same
--- operation with other arguments, the call goes on with its own.

local ridge = require 'ridge'
local call = require 'ridge.ffi.call'
local nn = ridge.nn

local x, image, w = ridge.randn(8, 6), ridge.ones(1, 4, 8, 8), ridge.ones(4, 4, 3, 3)
local heads, scores = ridge.randn(1, 2, 4, 8), ridge.randn(4, 5)
local labels = ridge.tensor({ 1, 2, 3, 4 }, { dtype = 'i64' })

-- A call, what it is given, and what it is given by who watches.
local CALLS = {
  ones = { function(o) return ridge.ones(unpack(o)) end, { 3, 4 }, { 7 } },
  tensor = { ridge.tensor, { 1, 2, 3 }, { { 1, 2 }, { 3, 4 } } },
  reshape = { function(o) return x:reshape(unpack(o)) end, { 6, 8 }, { 48 } },
  sum = { function(o) return x:sum(o) end, 1, 2 },
  cumsum = { function(o) return x:cumsum(o) end, 1, 2 },
  clamp = { function(o) return x:clamp(o, 2) end, -1, 1 },
  pad = { function(o) return x:pad(o) end, { { 1, 1 }, { 0, 2 } }, { { 3, 0 }, { 0, 0 } } },
  conv2d = { function(o) return image:conv2d(w, o) end, { padding = 1 }, { stride = 2 } },
  conv_transpose = { function(o) return image:conv_transpose(w, o) end, { stride = 1 },
    { stride = 2 } },
  cross_entropy = { function(o) return nn.cross_entropy(scores, labels, o) end,
    { reduction = 'mean' }, { reduction = 'sum' } },
  attention = { function(o) return nn.attention(heads, heads, heads, o) end, {},
    { causal = true } },
}

describe('a call that pays memory debt keeps its arguments:', function()
  after_each(function() call.watch(nil) end)

  for name, each in pairs(CALLS) do
    it(name, function()
      local f, own, other = unpack(each)
      local wanted, within, seen = tostring(f(own)), false, 0
      call.watch(function()
        if within then return end
        within, seen = true, seen + 1
        f(other)
        within = false
      end)
      for _ = 1, 3 do
        local debt = ridge.zeros(1100000) -- more than 4 MB: the next call pays
        assert.equal(wanted, tostring(f(own)))
        debt:release()
      end
      assert.is_true(seen >= 3)
    end)
  end
end)
