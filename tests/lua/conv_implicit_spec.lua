-- SPDX-License-Identifier: MIT
--- Convolutions whose rows are gathered (core/cpu/conv_implicit.c): each axis with numbers of its
--- own, groups that end in the middle of a strip, sums into what lies in the result, what is kept
--- with a weight, blocks shared out among threads. Beside the same in f64.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local choices = require 'ridge.choices'

local backend = ridge.backend
local FUSE = { 'epilogue_fusion', 'residual_fusion' }

describe('convolutions whose rows are gathered', function()
  local before

  before_each(function()
    before = backend.now()
    if C.rg_machine_facts().isa_level >= 1 then backend.set_isa 'avx2' end
    backend.set_threads(1)
  end)

  after_each(function()
    backend.forget_choices()
    backend.apply(before)
  end)

  -- Only AVX2 has kernels for it.
  local function on(what, f)
    it(what, function()
      if C.rg_machine_facts().isa_level >= 1 then f() end
    end)
  end

  -- f() by that way.
  local function gathered(f)
    local lines = {}
    backend.forget_choices()
    for _, row in ipairs(backend.why(ridge.inference, f)) do
      if row.images then lines[#lines + 1] = choices.problem(row) .. ': implicit' end
    end
    backend.apply { choices = table.concat(lines, '; ') }
    assert.is_true(#lines > 0, 'no convolution that has a choice')
    for _, row in ipairs(backend.why(ridge.inference, f)) do
      if row.images then assert.equal('implicit', row.path) end
    end
    return ridge.inference(f)
  end

  local function wide(t) return t and t:to 'f64' end

  -- y is conv(x, w) + bias + r, act of that, up to the rounding of its sums.
  local function near(y, x, w, opt, r, said)
    local exact, size = { layout = 'nhwc' }, { layout = 'nhwc' }
    for name, value in pairs(opt) do exact[name], size[name] = value, value end
    exact.act, size.act = nil, nil
    exact.bias, size.bias = wide(opt.bias), opt.bias and wide(opt.bias):abs()
    local wanted, most = wide(x):conv2d(wide(w), exact), wide(x):abs():conv2d(wide(w):abs(), size)
    if r then wanted, most = wanted + wide(r), most + wide(r):abs() end
    if opt.act then wanted = wanted[opt.act](wanted) end
    local off = ((wide(y) - wanted):abs() - most * 2 ^ -19):max():item()
    assert.is_true(off <= 2 ^ -22, ('%s: %g beyond its rounding'):format(said, off))
  end

  local function given(opt, bias, act)
    local out = { layout = 'nhwc', bias = bias, act = act }
    for name, value in pairs(opt) do out[name] = value end
    return out
  end

  -- images, rows, columns, channels, results, kernel, and options
  local AXES = {
    { 2, 11, 7, 4, 16, { 3, 2 }, { stride = { 1, 2 } } },
    { 2, 11, 7, 4, 16, { 2, 3 }, { stride = { 3, 1 } } },
    { 1, 9, 13, 3, 20, { 3, 3 }, { dilation = { 1, 2 } } },
    { 1, 13, 9, 3, 20, { 3, 3 }, { dilation = { 3, 1 } } },
    { 3, 8, 5, 6, 16, { 3, 3 }, { padding = { 0, 2 } } },
    { 3, 5, 8, 6, 16, { 3, 3 }, { padding = { 2, 0 } } },
    { 2, 10, 9, 6, 9, { 4, 3 }, { padding = { 3, 1 }, stride = { 2, 3 }, dilation = { 1, 2 } } },
  }

  on('have an own stride, dilation and padding for each axis', function()
    for i, s in ipairs(AXES) do
      local n, h, wide_by, c, o, k, opt = unpack(s)
      local g = ridge.generator(i)
      local x = ridge.randn(n, h, wide_by, c, { generator = g })
      local w = ridge.randn(o, c, k[1], k[2], { generator = g })
      local all = given(opt)
      near(gathered(function() return x:conv2d(w, all) end), x, w, all, nil, 'shape ' .. i)
    end
  end)

  on('have a bias for each result, where groups end within a strip', function()
    local g = ridge.generator(3)
    for _, s in ipairs { { 4, 5 }, { 2, 17 }, { 3, 16 }, { 1, 40 } } do
      local groups, outs = unpack(s)
      local x = ridge.randn(2, 5, 7, groups * 3, { generator = g })
      local w = ridge.randn(groups * outs, 3, 3, 3, { generator = g })
      local all = given({ groups = groups, padding = 1 },
        ridge.randn(groups * outs, { generator = g }))
      near(gathered(function() return x:conv2d(w, all) end), x, w, all, nil,
        ('%d groups of %d'):format(groups, outs))
    end
  end)

  on('are added to what lies in the result, whole strips and parts of them', function()
    local g = ridge.generator(5)
    for _, outs in ipairs { 16, 21, 5 } do
      for _, act in ipairs { 'none', 'relu', 'relu6', 'silu' } do
        local x = ridge.randn(2, 6, 5, 8, { generator = g })
        local w = ridge.randn(outs, 8, 3, 3, { generator = g })
        local r = ridge.randn(2, 6, 5, outs, { generator = g })
        r:mul_(8)
        local all = given({ padding = 1 }, ridge.randn(outs, { generator = g }))
        local function f(from)
          local y = (from or x):conv2d(w, all) + r
          return act == 'none' and y or y[act](y)
        end
        local function made()
          local graph = ridge.graph(function(from) return ridge.inference(f, from) end, x)
          return graph:optimize(FUSE):check():plan()
        end
        local first = made()
        first:run()
        local row = backend.why(first)[1]
        assert.equal('conv2d_add', row.op)
        row.op = 'conv2d' -- the choice is that of the convolution alone
        backend.forget_choices()
        backend.apply { choices = choices.problem(row) .. ': implicit' }
        local plan = made()
        local y = plan:run()
        assert.equal('implicit', backend.why(plan)[1].path)
        local opt = given({ padding = 1, act = act ~= 'none' and act or nil }, all.bias)
        near(y, x, w, opt, r, ('%d results, %s'):format(outs, act))
      end
    end
  end)

  on('are what a weight is now, whatever is kept of it', function()
    local g = ridge.generator(7)
    local all = ridge.randn(24, 4, 3, 3, { generator = g })
    all:set_param()
    local x, opt = ridge.randn(1, 6, 6, 4, { generator = g }), given { padding = 1 }
    for turn = 1, 2 do
      -- two weights of one size in one storage, then a third of another size
      for _, s in ipairs { { 1, 12 }, { 13, 24 }, { 1, 24 } } do
        local w = all:narrow(1, s[1], s[2] - s[1] + 1)
        w:set_param()
        for _ = 1, 2 do
          near(gathered(function() return x:conv2d(w, opt) end), x, w, opt, nil,
            ('rows %d to %d, turn %d'):format(s[1], s[2], turn))
        end
      end
      local flat = all:reshape(24, 4 * 9, 1, 1)
      flat:set_param()
      local deep = ridge.randn(1, 3, 3, 36, { generator = g })
      near(gathered(function() return deep:conv2d(flat, opt) end), deep, flat, opt, nil, 'as 1 x 1')
      all:mul_(-3)
    end
  end)

  on('are inf where a kernel is and nan nowhere, for a weight that is kept, too', function()
    for _, keeps in ipairs { false, true } do
      local w = ridge.ones(20, 4, 3, 3):mul_(1 / 0)
      if keeps then w:set_param() end
      local x, opt = ridge.ones(2, 6, 6, 4), given { padding = 1 }
      local y = gathered(function() return x:conv2d(w, opt) end)
      assert.equal(0, y:isnan():to('f32'):sum():item())
      assert.equal(0, y:isfinite():to('f32'):sum():item())
    end
  end)

  -- Fewer blocks than threads: strips are shared out, and threads begin in the middle of a block.
  on('are the same on any number of threads, and in a plan that was made on one', function()
    local g = ridge.generator(9)
    local sizes = { { 1, 7, 7, 64, 250, 3 }, { 1, 40, 40, 40, 80, 3 }, { 2, 9, 9, 128, 112, 1 },
      { 8, 14, 14, 32, 32, 3 } }
    for i, s in ipairs(sizes) do
      local x = ridge.randn(s[1], s[2], s[3], s[4], { generator = g })
      local w = ridge.randn(s[5], s[4], s[6], s[6], { generator = g })
      local opt = given { padding = (s[6] - 1) / 2 }
      local function f() return x:conv2d(w, opt) end
      local wanted = gathered(f):clone()
      near(wanted, x, w, opt, nil, 'shape ' .. i)
      local plan = ridge.capture(ridge.inference, f)
      for _, threads in ipairs { 2, 3, 7, 1 } do
        backend.set_threads(threads)
        assert.is_true(plan():equal(wanted), ('plan of %d, %d threads'):format(i, threads))
        for _ = 1, 3 do
          assert.is_true(gathered(f):equal(wanted), ('shape %d, %d threads'):format(i, threads))
        end
      end
      backend.set_threads(1)
    end
  end)
end)
