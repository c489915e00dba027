-- SPDX-License-Identifier: MIT
-- A tensor that is added behind a convolution, as an argument of its call: the same numbers by
-- every way, and nobody's memory but what ends there is written over.

local backend = require 'ridge.backend'
local choices = require 'ridge.choices'
local conv_ways = require 'ridge.conv_ways'
local ridge = require 'ridge'
local nn = ridge.nn

local FUSE = { 'epilogue_fusion', 'residual_fusion' }

local function ops(graph)
  local list = {}
  for i, node in ipairs(graph:nodes()) do list[i] = node.op end
  return table.concat(list, ' ')
end

-- The largest difference, by the largest result.
local function distance(a, b)
  a, b = a:to 'f64', b:to 'f64'
  return (a - b):abs():max():item() / b:abs():max():item()
end

local MOST = { f32 = 3e-6, bf16 = 2 ^ -6 }

-- f's plan has nodes like `want`, and its results are f's, several times.
local function becomes(want, f, x, label)
  local function quiet(v) return ridge.inference(f, v) end
  local g = ridge.graph(quiet, x)
  local h = g:optimize(FUSE):check()
  assert.matches(want, ops(h), label)
  local plan = h:plan()
  for i = 1, 3 do
    x:copy_(ridge.randn(unpack(x.shape)))
    local before = x:clone()
    local a, b = { quiet(x) }, { plan:run() }
    for k = 1, #a do
      local d = distance(b[k], a[k])
      assert(d <= MOST[x.dtype], ('%s, run %d: off by %g'):format(label or want, i, d))
    end
    assert.equal(0, (x - before):abs():max():item())
  end
  return plan, h
end

local function stays(f, x, label)
  local g = ridge.graph(function(v) return ridge.inference(f, v) end, x)
  assert.is_nil(ops(g:optimize(FUSE):check()):find 'conv2d_add', label)
end

-- n, c, rows, columns, o, kernel, stride, groups
local SHAPES = { { 1, 16, 9, 7, 16, 3, 1, 1 }, { 2, 32, 5, 5, 40, 1, 1, 1 },
  { 3, 3, 11, 8, 5, 3, 2, 1 }, { 1, 12, 6, 13, 12, 3, 1, 12 }, { 2, 8, 7, 9, 12, 5, 1, 4 },
  { 1, 1, 14, 14, 6, 5, 1, 1 }, { 2, 20, 1, 1, 33, 1, 1, 1 }, { 2, 64, 8, 8, 37, 1, 1, 1 } }

local function case(s, layout, dtype, opts)
  local n, c, h, w, o, k, stride, groups = unpack(s)
  opts.stride, opts.groups, opts.padding, opts.layout = stride, groups, (k - 1) / 2, layout
  opts.seed = 1
  local conv = nn.Conv2d(c, o, k, opts):eval():to(dtype)
  local x = layout == 'nhwc' and ridge.randn(n, h, w, c) or ridge.randn(n, c, h, w)
  x = x:to(dtype)
  return conv, x, ridge.randn(unpack(ridge.inference(conv, x).shape)):to(dtype)
end

describe('a tensor added behind a convolution', function()
  local before
  before_each(function()
    before = backend.now()
    ridge.seed(5)
  end)
  after_each(function()
    backend.forget_choices()
    backend.apply(before)
  end)

  for _, dtype in ipairs { 'f32', 'bf16' } do
    for _, layout in ipairs { 'nchw', 'nhwc' } do
      it(('is its argument by every way: %s, %s'):format(dtype, layout), function()
        local seen = {}
        for i, s in ipairs(SHAPES) do
          for _, act in ipairs { 'relu', 'none', 'tanh' } do
            local conv, x, r = case(s, layout, dtype, { bias = i % 2 == 1 })
            local function f(v) -- what is added ends there; and lives on
              local one = conv(v) + r:exp()
              local t = r:neg()
              local two = t + conv(v)
              if act ~= 'none' then one, two = one[act](one), two[act](two) end
              return one, two * t
            end
            -- convolutions with and without a choice that says another way
            local rows = backend.why(ridge.inference, (case(s, layout, dtype, {
              bias = i % 2 == 1, activation = act ~= 'none' and act or nil })), x)
            for _, way in ipairs(conv_ways.WAYS) do
              if rows[1] then
                backend.apply { choices = choices.problem(rows[1]) .. ': ' .. way }
              end
              local plan = becomes('conv2d_add.*conv2d_add', f, x,
                ('shape %d %s by %s'):format(i, act, way))
              for _, row in ipairs(backend.why(plan)) do
                if row.op == 'conv2d_add' then seen[row.way or '?'] = true end
              end
              backend.forget_choices()
            end
          end
        end
        assert.is_true(seen.onednn or seen['onednn:f32'] or seen.apart or false)
        if dtype == 'f32' then
          assert.is_true(seen[layout == 'nhwc' and 'product' or 'tiles'] or false)
        end
      end)
    end
  end

  it('has the bits of both calls where images are read in place, in f32', function()
    for _, s in ipairs { SHAPES[1], SHAPES[4] } do
      local conv, x, r = case(s, 'nhwc', 'f32', {})
      local function f(v) return (conv(v) + r:abs()):relu() end
      local plan = becomes('conv2d_add', f, x)
      -- oneDNN's kernels for AVX2 begin their sums at what they add to
      local exact = backend.now().isa:find '512' or backend.now().isa == 'amx'
      if exact then assert.equal(0, (plan() - ridge.inference(f, x)):abs():max():item()) end
    end
  end)

  it('takes the memory of what ends there, and of nothing else', function()
    local conv, x = case(SHAPES[1], 'nhwc', 'f32', {})
    local size = x.shape[1] * x.shape[2] * x.shape[3] * x.shape[4] * 4
    local function live(f) return (becomes('conv2d_add', f, x)):facts().live_bytes end
    local ends = live(function(v) return conv(v:exp()) + v:neg() end)
    local later = live(function(v)
      local t = v:neg()
      return (conv(v:exp()) + t) * t
    end)
    assert.equal(1, math.floor((later - ends) / size + 0.5), ('%d and %d'):format(ends, later))
    local cases = {
      ['read later'] = function(v) local t = v:neg() return (conv(v) + t) * t end,
      ['handed out'] = function(v) local t = v:neg() return conv(v) + t, t end,
      ['an input'] = function(v) return conv(v) + v end,
      ['what is convolved'] = function(v) local t = v:neg() return conv(t) + t end,
      ['its view read later'] = function(v)
        local t = v:neg()
        local part = t:narrow(2, 1, 3)
        return (conv(v) + t):narrow(2, 1, 3) * part
      end,
      ['a view'] = function(v)
        local t = v:neg()
        return (conv(v) + t:view(unpack(t.shape))):relu(), t:abs():sum()
      end,
      ['a part'] = function(v)
        local t = ridge.concat({ v, v:neg() }, 1)
        return conv(v) + t:narrow(1, 2, 1), t:abs():sum()
      end,
      ['another order'] = function(v)
        local t = v:transpose(2, 3):exp()
        return conv(v) + t:transpose(2, 3)
      end,
    }
    for label, f in pairs(cases) do becomes('conv2d_add', f, x, label) end
    local w = ridge.randn(unpack(x.shape))
    local kept = w:clone()
    becomes('conv2d_add', function(v) return conv(v) + w end, x, 'a constant')
    assert.equal(0, (w - kept):abs():max():item())
  end)

  it('takes the later of two convolutions, and each once', function()
    local conv, x = case(SHAPES[1], 'nhwc', 'f32', {})
    local other = nn.Conv2d(16, 16, 1, { seed = 2, layout = 'nhwc' }):eval()
    local _, h = becomes('conv2d conv2d_add', function(v) return (other(v) + conv(v)):relu() end,
      x)
    assert.equal('conv2d conv2d_add', ops(h))
    becomes('conv2d_add conv2d_add', function(v) -- a chain of residual blocks
      local t = (conv(v) + v):relu()
      return (other(t) + t):relu()
    end, x)
  end)

  it('keeps nan and inf of weights where they were', function()
    for _, s in ipairs(SHAPES) do
      for _, layout in ipairs { 'nchw', 'nhwc' } do
        local conv, x, r = case(s, layout, 'f32', {})
        ridge.no_grad(function() conv.weight:narrow(1, 1, 1):narrow(3, 1, 1):fill_(1 / 0) end)
        local function f(v) return ridge.inference(function() return conv(v) + r:exp() end) end
        local plan = ridge.graph(f, x):optimize(FUSE):plan()
        for _ = 1, 2 do
          local a, b = f(x), plan()
          local function kinds(t) return t:ne(t):to 'f32' + (t:abs():eq(1 / 0)):to 'f32' * 2 end
          assert.equal(0, (kinds(a) - kinds(b)):abs():max():item())
        end
      end
    end
  end)

  it('stays a call of its own where it is none of one tensor of that shape', function()
    local conv, x, r = case(SHAPES[1], 'nhwc', 'f32', {})
    stays(function(v) return conv(v):relu() + r end, x, 'an activation between')
    stays(function(v) local y = conv(v) return y + y end, x, 'itself')
    stays(function(v) local y = conv(v) return y + r, y end, x, 'read by others')
    stays(function(v) return conv(v) + r:narrow(4, 1, 1) end, x, 'repeated')
    stays(function(v) return conv(v) + 1 end, x, 'a number')
    stays(function(v) return conv(v) - r end, x, 'a difference')
    for _, dtype in ipairs { 'f16', 'f64' } do
      local c, y, t = case(SHAPES[1], 'nhwc', dtype, {})
      stays(function(v) return c(v) + t end, y, dtype)
    end
  end)
end)
