-- SPDX-License-Identifier: MIT
--- Ways of convolutions: each gives the same numbers up to its rounding, what is measured is
--- obeyed, kept and shared, and what does not hold here changes nothing.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local ffi = require 'ffi'
local choices = require 'ridge.choices'
local conv_ways = require 'ridge.conv_ways'
local folders = dofile 'tests/lua/store/folder.lua'
local lab = require 'ridge.sweep.lab'
local merge = require 'ridge.store.merge'
local rows = require 'ridge.store.choices'
local store = require 'ridge.store'

local backend = ridge.backend

-- images, channels, rows, columns, results, kernel, and options
local SHAPES = {
  { 2, 1, 9, 11, 6, 5, { padding = 2 } }, { 1, 3, 13, 7, 16, 3, { padding = 1 } },
  { 3, 6, 8, 8, 16, 5, {} }, { 2, 16, 7, 9, 17, 3, { padding = 1 } },
  { 2, 8, 9, 9, 8, 3, { padding = 1, groups = 8 } }, { 2, 6, 11, 7, 4, 3, { groups = 2 } },
  { 2, 5, 10, 9, 12, 3, { padding = 2, stride = 2 } },
  { 1, 4, 12, 12, 5, 3, { padding = 2, dilation = 2 } },
  { 3, 20, 5, 7, 33, 1, {} }, { 1, 33, 6, 5, 20, 1, {} },
  { 2, 7, 5, 3, 9, 1, { stride = 2 } },
}

-- Roundings that a sum of products makes at most of its terms, and those of a result.
local SUM, RESULT = { f32 = 2 ^ -19, bf16 = 2 ^ -18 }, { f32 = 0, bf16 = 2 ^ -8 }

local function images(g, shape, layout)
  local n, c, h, w = unpack(shape)
  return layout == 'nhwc' and ridge.randn(n, h, w, c, { generator = g })
    or ridge.randn(n, c, h, w, { generator = g })
end

-- A convolution and its gradients; all: y, dx, dw, db of inputs x, w, b, dy.
local function case(shape, layout, dtype)
  local g = ridge.generator(7)
  local n, c, h, w, o, k, opt = unpack(shape)
  local given = { layout = layout }
  for name, value in pairs(opt) do given[name] = value end
  local x = images(g, { n, c, h, w }, layout)
  local weight = ridge.randn(o, c / (opt.groups or 1), k, k, { generator = g })
  local b = ridge.randn(o, { generator = g })
  local t = { x = x:to(dtype), w = weight:to(dtype), b = b:to(dtype), opt = given }
  given.bias = t.b
  local y = t.x:conv2d(t.w, given)
  t.dy = ridge.randn(unpack(y.shape)):to(dtype)
  return t
end

-- y, and gradients; abs: of absolute values.
local function all(t, to, abs)
  local function of(x) return (abs and x:to(to):abs() or x:to(to)):detach():clone() end
  local x, w, b = of(t.x), of(t.w), of(t.b)
  local plain = {}
  for name, value in pairs(t.opt) do plain[name] = value end
  plain.bias = b
  local out = { x:conv2d(w, plain):detach() }
  x:requires_grad_()
  w:requires_grad_()
  b:requires_grad_()
  x:conv2d(w, plain):backward(of(t.dy))
  out[2], out[3], out[4] = x.grad, w.grad, b.grad
  return out
end

local NAMES = { 'y', 'dx', 'dw', 'db' }

local function check(got, wanted, most, dtype, said)
  for i, name in ipairs(NAMES) do
    local error_of = (got[i]:to 'f64' - wanted[i]):abs()
    local bound = most[i] * SUM[dtype] + wanted[i]:abs() * RESULT[dtype]
    local off = (error_of - bound):max():item()
    assert.is_true(off <= 1e-30, ('%s of %s is %g beyond its rounding'):format(name, said, off))
    assert.is_true(got[i]:isfinite():all():item() ~= 0, name)
  end
end

describe('ways of convolutions', function()
  local before

  before_each(function()
    before = backend.now()
    backend.set_threads(1)
  end)

  after_each(function()
    C.rg_device_modes_now().deterministic = 0
    backend.forget_choices()
    backend.apply(before)
  end)

  -- By one way, whatever can take it.
  local function force(list, way)
    local lines = {}
    for _, row in ipairs(list) do
      if row.images then lines[#lines + 1] = choices.problem(row) .. ': ' .. way end
    end
    backend.apply { choices = table.concat(lines, '; ') }
  end

  -- Of the ways that are expected for AVX2, those that oneDNN's kernels for it made slow: weights'
  -- gradients in place with 4 and 5 columns, 1 x 1 that makes one channel.
  it('expects no way that is many times as slow with AVX2', function()
    if C.rg_machine_facts().isa_level < 1 then return end
    backend.set_isa 'avx2'
    local function ways(c, o, kernel, groups, layout)
      local x = layout == 'nhwc' and ridge.randn(2, 12, 12, c) or ridge.randn(2, c, 12, 12)
      local w = ridge.randn(o, c / groups, kernel[1], kernel[2]):requires_grad_()
      local out = {}
      for _, row in ipairs(backend.why(function()
        local y = x:requires_grad_():conv2d(w, { groups = groups, layout = layout })
        y:backward(ridge.ones(unpack(y.shape)))
      end)) do
        if row.images then out[row.op] = row.path end
      end
      return out
    end
    for _, kernel in ipairs { { 5, 5 }, { 1, 4 }, { 7, 5 } } do
      assert.equal('blocked', ways(16, 16, kernel, 16, 'nhwc').conv2d_back_weight)
    end
    for _, kernel in ipairs { { 3, 3 }, { 5, 3 }, { 7, 7 } } do
      assert.equal('plain', ways(16, 16, kernel, 16, 'nhwc').conv2d_back_weight)
    end
    assert.equal('blocked', ways(16, 16, { 3, 3 }, 16, 'nchw').conv2d_back_weight)
    local one = ways(64, 1, { 1, 1 }, 1, 'nhwc')
    assert.same({ 'product', 'product' }, { one.conv2d, one.conv2d_back_weight })
    assert.equal('product', ways(1, 64, { 1, 1 }, 1, 'nhwc').conv2d_back_data)
    assert.equal('plain', ways(3, 1, { 1, 1 }, 1, 'nhwc').conv2d)
  end)

  for _, dtype in ipairs { 'f32', 'bf16' } do
    for _, layout in ipairs { 'nchw', 'nhwc' } do
      it(('agree, each with plain loops in f64: %s, %s'):format(dtype, layout), function()
        local seen = {}
        for i, shape in ipairs(SHAPES) do
          local t = case(shape, layout, dtype)
          local wanted, most = all(t, 'f64'), all(t, 'f64', true)
          local list = backend.why(all, t, dtype)
          for _, way in ipairs(conv_ways.WAYS) do
            force(list, way)
            check(all(t, dtype), wanted, most, dtype, ('shape %d by %s'):format(i, way))
            for _, row in ipairs(backend.why(all, t, dtype)) do
              if row.path == way then seen[row.op .. ' ' .. way] = true end
            end
            local plan = ridge.capture(ridge.inference, function()
              return t.x:conv2d(t.w, t.opt)
            end)
            for _ = 1, 2 do
              check({ plan(), unpack(wanted, 2) }, wanted, most, 'bf16', ('plan of %d'):format(i))
            end
          end
        end
        for _, op in ipairs { 'conv2d', 'conv2d_back_data', 'conv2d_back_weight' } do
          for _, way in ipairs { 'blocked', 'plain', 'product' } do
            local rounds_twice = op == 'conv2d' and dtype == 'bf16' and layout == 'nchw'
            assert(seen[op .. ' ' .. way] or way == 'product' and rounds_twice
              or dtype == 'bf16', op .. ' ' .. way)
          end
        end
        assert.equal(dtype == 'f32' and layout == 'nchw', seen['conv2d tiles'] or false)
        assert.equal(dtype == 'f32' and layout == 'nchw', seen['conv2d_back_data tiles'] or false)
      end)
    end
  end

  -- One sum after the other, rows of zeros in the padding, strips of 16 results, six positions.
  local IMPLICIT = {
    { 1, 64, 7, 7, 32, 3, { padding = 1 } }, { 2, 5, 9, 11, 17, 3, { padding = 2, stride = 2 } },
    { 3, 12, 6, 5, 40, 1, { stride = 2 } }, { 1, 1, 1, 1, 1, 1, {} },
    { 2, 136, 5, 5, 136, 1, { groups = 4 } }, { 1, 20, 8, 9, 10, 3, { groups = 10, padding = 1 } },
    { 1, 16, 12, 7, 16, 3, { padding = { 3, 0 }, dilation = 2 } },
    { 2, 3, 19, 4, 8, { 7, 2 }, { padding = { 0, 4 }, stride = 3 } },
    { 1, 40, 40, 40, 16, 5, { padding = 2 } },
  }

  it('agree where rows are gathered, with the same bits on three threads', function()
    if C.rg_machine_facts().isa_level < 1 then return end
    backend.set_isa 'avx2'
    for i, shape in ipairs(IMPLICIT) do
      local n, c, h, w, o, k, given = unpack(shape)
      for _, act in ipairs { 'none', 'relu', 'relu6', 'silu' } do
        local opt = { layout = 'nhwc', seed = i, bias = i % 2 == 0, activation = act }
        for name, value in pairs(given) do opt[name] = value end
        local layer = ridge.nn.Conv2d(c, o, k, opt):eval()
        local x = images(ridge.generator(i), { n, c, h, w }, 'nhwc')
        opt = { layout = 'nhwc' }
        for name, value in pairs(given) do opt[name] = value end
        local function wide(weight, bias, from)
          opt.bias = bias
          return from:conv2d(weight, opt)
        end
        local weight, bias = layer.weight:to 'f64', layer.bias and layer.bias:to 'f64'
        local wanted = wide(weight, bias, x:to 'f64')
        local most = wide(weight:abs(), bias and bias:abs(), x:to 'f64':abs())
        if act ~= 'none' then wanted = wanted[act](wanted) end
        local function kept() return layer(x) end
        local function given_again()
          opt.bias = layer.bias
          local y = x:conv2d(layer.weight:clone(), opt)
          return act == 'none' and y or y[act](y)
        end
        for _, f in ipairs { kept, given_again } do
          local got
          for threads = 1, 3, 2 do
            backend.set_threads(threads)
            backend.forget_choices()
            force(backend.why(ridge.inference, f), 'implicit')
            assert.equal('implicit', backend.why(ridge.inference, f)[1].path)
            local y = ridge.inference(f)
            local off = ((y:to 'f64' - wanted):abs() - most * 2 ^ -19):max():item()
            assert.is_true(off <= 2 ^ -22, ('shape %d, %s: %g'):format(i, act, off))
            assert.is_true(got == nil or y:equal(got), 'threads')
            got = y
          end
        end
      end
    end
  end)

  it('agree with a weight that is kept, and an activation', function()
    for _, dtype in ipairs { 'f32', 'bf16' } do
      for _, layout in ipairs { 'nchw', 'nhwc' } do
        for i, shape in ipairs { { 2, 5, 9, 7, 12, 3 }, { 3, 20, 5, 7, 33, 1 } } do
          local n, c, h, w, o, k = unpack(shape)
          local layer = ridge.nn.Conv2d(c, o, k, { seed = 1, padding = (k - 1) / 2,
            layout = layout, activation = i == 1 and 'relu' or 'tanh' }):to(dtype):eval()
          local x = images(ridge.generator(3), { n, c, h, w }, layout):to(dtype)
          local opt = { bias = layer.bias:to 'f64', padding = (k - 1) / 2, layout = layout }
          local wanted = x:to 'f64':conv2d(layer.weight:to 'f64', opt)
          wanted = i == 1 and wanted:relu() or wanted:tanh()
          opt.bias = opt.bias:abs()
          local most = x:to 'f64':abs():conv2d(layer.weight:to 'f64':abs(), opt)
          local list = backend.why(ridge.inference, layer, x)
          -- oneDNN has nothing in bf16 below AVX-512: there is no choice
          assert.is_true(list[1] and list[1].kept and list[1].epilogue or dtype == 'bf16')
          for _, way in ipairs(list[1] and conv_ways.WAYS or {}) do
            force(list, way)
            local plan = ridge.capture(ridge.inference, layer, x)
            for _, y in ipairs { ridge.inference(layer, x), plan(), plan() } do
              local off = ((y:to 'f64' - wanted):abs() - most * SUM[dtype]
                - wanted:abs() * RESULT[dtype]):max():item()
              assert.is_true(off <= 2 ^ -20, way .. ' is ' .. off .. ' beyond its rounding')
            end
          end
        end
      end
    end
  end)

  it('give inf, and no nan, where a kernel is inf and the padding is not', function()
    for _, layout in ipairs { 'nchw', 'nhwc' } do
      for _, c in ipairs { 1, 2, 20 } do
        local x = layout == 'nchw' and ridge.ones(2, c, 6, 6) or ridge.ones(2, 6, 6, c)
        local w = ridge.ones(c, c, 3, 3):mul_(1 / 0)
        local function f() return x:conv2d(w, { padding = 1, layout = layout }) end
        local list = backend.why(f)
        for _, way in ipairs(conv_ways.WAYS) do
          force(list, way)
          assert.equal(0, f():isnan():to('f32'):sum():item(), way .. layout .. c)
          local plan = ridge.capture(f)
          for _ = 1, 2 do
            assert.equal(0, plan():isnan():to('f32'):sum():item(), way .. layout .. c)
          end
        end
      end
    end
    local x = ridge.zeros(1, 20, 6, 6)
    local dy = ridge.ones(1, 20, 10, 10):mul_(1 / 0)
    -- 0 times inf is nan, and nothing is there where all is padding
    local function f()
      local w = ridge.ones(20, 20, 3, 3):requires_grad_()
      x:conv2d(w, { padding = 3 }):backward(dy)
      return w.grad
    end
    local list = backend.why(f)
    local wanted = f():isnan()
    for _, way in ipairs { 'blocked', 'plain' } do
      force(list, way)
      assert.is_true(f():isnan():equal(wanted), way)
    end
  end)

  local function net()
    local layer = ridge.nn.Conv2d(20, 24, 1, { seed = 1 }):eval()
    return layer, ridge.randn(2, 20, 9, 9)
  end

  it('are measured once, each with its times, and obeyed', function()
    local layer, x = net()
    local usual = backend.why(ridge.inference, layer, x)[1].path
    local found = ridge.autotune(ridge.inference, layer, x)
    assert.equal(1, #found)
    local c = found[1]
    assert.same({ 'conv2d', 2, 20, 24, 1, { 9, 9 }, { 1, 1 }, 'nchw', 'f32', true, false, 1, 15 },
      { c.op, c.images, c.channels, c.outs, c.groups, c.size, c.kernel, c.layout, c.compute, c.kept,
        c.epilogue, c.threads, c.rounds })
    for _, way in ipairs { 'blocked', 'plain', 'tiles', 'product' } do
      local t = c.paths[way]
      assert.is_true(t.lo > 0 and t.lo <= t.ns and t.ns <= t.hi, way)
    end
    assert.equal(usual, c.standard)
    assert.equal(0, #ridge.autotune(ridge.inference, layer, x))
    local one = ffi.new 'rg_choice'
    assert(C.rg_choice_at(0, one) == 0)
    local PATH = { 'onednn', 'onednn:plain', 'tiles', 'product' }
    for way = 1, 4 do
      one.path = way
      assert(C.rg_choice_put(one) == 0)
      local plan = ridge.capture(ridge.inference, layer, x)
      local row = backend.why(plan)[1]
      assert.same({ 'measured', conv_ways.WAYS[way], PATH[way] }, { row.by, row.path, row.way })
      assert.same(c.paths, row.paths)
      row = backend.why(ridge.inference, layer, x)[1]
      assert.same({ 'measured', conv_ways.WAYS[way] }, { row.by, row.path })
      assert.equal(PATH[way],
        ridge.profile(ridge.inference, layer, x).operations[1].path)
    end
    for _, bad in ipairs { 0, 6, -1 } do
      one.path = bad
      assert.is_true(C.rg_choice_put(one) ~= 0)
    end
    one.path, one.work = 1, 4
    assert.is_true(C.rg_choice_put(one) ~= 0)
  end)

  it('are printed with their times by why, in a table with products', function()
    local layer, x = net()
    local two = ridge.nn.Sequential(layer, ridge.nn.Flatten(), ridge.nn.Linear(24 * 81, 5)):eval()
    ridge.autotune(ridge.inference, two, x)
    local text = tostring(backend.why(ridge.capture(ridge.inference, two, x)))
    assert.matches('^step  operation  module  sizes%s+way%s+by%s+own  %s*onednn  %s*openblas  '
      .. '%s*blocked  %s*plain  %s*tiles  %s*product', text)
    assert.matches('\n%s+1  conv2d%s+1%s+2x20x9x9 24 of 1x1 nchw%s+%S+%s+measured', text)
    assert.matches('1 product and 1 convolution,', tostring(backend.choices()), 1, true)
    assert.matches('^2x20x9x9 24 of 1x1 nchw  %s*median', tostring(backend.choices()[1]))
  end)

  it('are those of the rule with deterministic on, in plans of before too', function()
    local layer, x = net()
    local wanted, list = ridge.inference(layer, x), backend.why(ridge.inference, layer, x)
    local usual = list[1].path
    force(list, 'tiles')
    local plan = ridge.capture(ridge.inference, layer, x)
    assert.equal('tiles', backend.why(plan)[1].path)
    ridge.autotune(ridge.inference, layer, x) -- is known: nothing changes
    local one = ffi.new 'rg_choice'
    assert(C.rg_choice_at(0, one) == 0)
    for way, name in ipairs(conv_ways.WAYS) do
      one.standard = name == usual and way or one.standard
    end
    assert(C.rg_choice_put(one) == 0)
    plan = ridge.capture(ridge.inference, layer, x)
    C.rg_device_modes_now().deterministic = 1
    for _, p in ipairs { plan, ridge.capture(ridge.inference, layer, x) } do
      local row = backend.why(p)[1]
      assert.same({ 'pinned', usual }, { row.by, row.path })
      for _ = 1, 2 do assert.is_true(p():equal(wanted)) end
    end
    assert.is_true(ridge.inference(layer, x):equal(wanted))
    backend.forget_choices()
    assert.equal(0, #ridge.autotune(ridge.inference, layer, x))
  end)

  it('are of one instruction set, one number of threads, one shape, type and layout', function()
    local layer, x = net()
    local row = backend.why(ridge.inference, layer, x)[1]
    local text, usual = choices.problem(row), row.path
    local others = { text:gsub('t1 ', 't2 '), text:gsub('o24', 'o25'), text:gsub('nchw', 'nhwc'),
      text:gsub('f32', 'bf16'), text:gsub(' k t', ' t'), text:gsub('conv2d', 'conv2d_back_data'),
      text:gsub('g1', 'g2'), text:gsub('p0', 'p1'), text:gsub('s1', 's2'), text:gsub('d1', 'd2'),
      text:gsub('k1x1', 'k1x2'), text:gsub('9x9', '9x8'), text:gsub('2x20', '3x20') }
    local level = C.rg_isa() == 0 and 1 or 0
    others[#others + 1] = text:gsub('%S+$', ffi.string(C.rg_isa_name(level)))
    local seen = {}
    for _, other in ipairs(others) do
      if type(other) == 'string' and other ~= text then
        seen[#seen + 1] = other
        backend.apply { choices = other .. ': tiles' }
        assert.equal(usual, backend.why(ridge.inference, layer, x)[1].path, other)
      end
    end
    assert.equal(14, #seen)
    backend.apply { choices = text .. ': tiles' }
    assert.equal('tiles', backend.why(ridge.inference, layer, x)[1].path)
    if C.rg_machine_facts().isa_level > 0 then
      backend.set_isa(ffi.string(C.rg_isa_name(level)))
      assert.are_not.equal('tiles', backend.why(ridge.inference, layer, x)[1].path)
    end
  end)

  -- forward, for x, for the weight
  local function expected(n, c, h, w, o, k, groups, layout, dtype)
    local t = case({ n, c, h, w, o, k, { padding = (k - 1) / 2, groups = groups } }, layout, dtype)
    local paths = {}
    for _, row in ipairs(backend.why(all, t, dtype)) do
      if row.images then
        assert.equal('expected', row.by)
        paths[row.op] = row.path
      end
    end
    return { paths.conv2d, paths.conv2d_back_data, paths.conv2d_back_weight }
  end

  it('are expected to be the fastest by what they do, where nothing was measured', function()
    -- as many bytes to copy as to read, and products without a copy
    assert.same({ 'plain', 'plain', 'plain' }, expected(1, 64, 28, 28, 64, 1, 1, 'nchw', 'f32'))
    -- copies are little beside nine taps of 64 channels
    assert.same({ 'blocked', 'blocked', 'blocked' },
      expected(16, 64, 28, 28, 64, 3, 1, 'nchw', 'f32'))
    local forward = C.rg_isa() == 1 and 'implicit' or 'plain' -- rows are gathered with AVX2 alone
    assert.same({ forward, 'plain', 'plain' }, expected(16, 64, 28, 28, 64, 3, 1, 'nhwc', 'f32'))
    -- vectors of channels would be padding
    assert.same({ 'tiles', 'tiles', 'blocked' }, expected(16, 6, 28, 28, 4, 5, 1, 'nchw', 'f32'))
    -- in place oneDNN has loops in C alone
    assert.same({ 'blocked', 'blocked', 'blocked' },
      expected(1, 1, 28, 96, 1, 7, 1, 'nhwc', 'f32'))
  end)

  it('that cannot do the work are not taken', function()
    local x, w = ridge.randn(1, 4, 6, 6), ridge.randn(4, 4, 3, 3)
    local function f() return x:conv2d(w) end
    local wanted = f()
    force(backend.why(f), 'product')
    local row = backend.why(f)[1]
    assert.same({ 'tiles', 'expected' }, { row.path, row.by })
    assert.is_true(f():equal(wanted))
    local plan = ridge.capture(f)
    assert.is_true(plan():equal(wanted))
    assert.equal('expected', backend.why(plan)[1].by)
    local half, halves = x:to 'f16', w:to 'f16'
    plan = ridge.capture(function() return half:conv2d(halves) end)
    assert.equal('only', backend.why(plan)[1].by)
  end)

  describe('in a file', function()
    local folder, db

    before_each(function()
      folder = folders.new()
      db = folder .. '/c.db'
    end)

    after_each(function() folders.remove(folder) end)

    it('are kept, once, given back and shared', function()
      local layer, x = net()
      local found = ridge.autotune(ridge.inference, layer, x)
      assert.equal(1, backend.save_choices { db = db })
      assert.equal(0, backend.save_choices { db = db })
      backend.forget_choices()
      assert.same({ put = 1, fitted = 0, known = 0, skipped = 0 }, backend.load_choices { db = db })
      assert.same(found[1], backend.choices()[1])
      local st = store.open(folder .. '/other.db', 'write')
      merge.take(st, db)
      st:close()
      backend.forget_choices()
      assert.equal(1, backend.load_choices { db = folder .. '/other.db' }.put)
      assert.equal('measured', backend.why(ridge.inference, layer, x)[1].by)
      local text, status = folders.run(('./ridge choices --db %s'):format(db))
      assert.equal(0, status, text)
      assert.matches('\nconv%s+conv2d 2x20x9x9 o24 k1x1', text)
    end)

    it('that are none, or of no version or machine of here, are skipped and counted', function()
      local layer, x = net()
      local row = backend.why(ridge.inference, layer, x)[1]
      local text = choices.problem(row)
      local function t(ns) return { ns = ns, lo = ns, hi = ns } end
      local function stored(changed)
        local out = { operation = 'conv', problem = text, path = 'product', standard = 'blocked',
          rounds = 15, times = { product = t(1), blocked = t(2) }, at = 1.7e15 }
        for name, value in pairs(changed) do out[name] = value end
        return out
      end
      local bad = { stored { path = 'onednn' }, stored { path = 'auto' },
        stored { problem = text .. ' x' }, stored { problem = text:gsub('nchw', 'nchx') .. '' },
        stored { problem = text:gsub('20x9', '20000000000000000000x9') .. '' },
        stored { problem = text:gsub('t1 ', 't9999 ') .. '' }, stored { standard = 'own' },
        stored { rounds = 100 }, stored { problem = '', path = '' }, stored { problem = 'conv2d' } }
      for i, one in ipairs(bad) do
        one.at = one.at + i
        local path = ('%s/%d.db'):format(folder, i)
        local st = store.open(path, 'write')
        rows.add(st, st:machine(lab.facts().machine), choices.versions(), { one })
        st:close()
        assert.same({ put = 0, fitted = 0, known = 0, skipped = 1 },
          backend.load_choices { db = path }, i)
      end
      local versions = choices.versions()
      versions.onednn = '0.1'
      local st = store.open(db, 'write')
      rows.add(st, st:machine(lab.facts().machine), versions, { stored {} })
      st:close()
      assert.equal(0, backend.load_choices { db = db }.put)
      st = store.open(db, 'write')
      rows.add(st, st:machine(lab.facts().machine), choices.versions(),
        { stored { times = { product = 'x', blocked = { ns = -1 }, own = t(1) } } })
      st:close()
      assert.equal(1, backend.load_choices { db = db }.put)
      assert.same({}, backend.choices()[1].paths)
      assert.equal('product', backend.why(ridge.inference, layer, x)[1].path)
    end)
  end)

  -- oneDNN's gathering kernels write behind their room where channels do not fill vectors
  it('overwrite nothing where kernels of 1 x 1 have a stride', function()
    local code = [[
      for _, c in ipairs { 3, 8, 12 } do
        local x = ridge.randn(4, 56, 56, c):requires_grad_()
        local f = ridge.nn.Conv2d(c, 6, 1, { stride = 2, layout = "nhwc" })
        for i = 1, 3 do f(x):sum():backward() end
      end
      print "ended"]]
    local watch = 'MALLOC_CHECK_=3 LD_PRELOAD=${LD_PRELOAD:-libc_malloc_debug.so.0} '
    local pipe = assert(io.popen(watch .. ("./ridge --threads 1 -e '%s' 2>&1"):format(code)))
    assert.equal('ended\n', pipe:read '*a')
    pipe:close()
  end)
end)
