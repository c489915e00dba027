-- SPDX-License-Identifier: MIT
--- The parts of ridge.compile that choose: which of several plans is taken where their times are
--- known (told by the test), what becomes of those that are not, what is taken apart, and what the
--- report says.
local ridge = require 'ridge'
local ab = require 'ridge.measure.ab'
local apart = require 'ridge.compile.apart'
local arguments = require 'ridge.compile.arguments'
local choices = require 'ridge.choices'
local kept = require 'ridge.plan_choices'
local report = require 'ridge.compile.report'
local timing = require 'ridge.compile.timing'
local nn = ridge.nn

-- Medians are what `told` says of so many candidates, in the order they are asked for.
local function with_times(told, f)
  local before, asked = timing.medians, {}
  timing.medians = function(list)
    asked[#asked + 1] = #list
    for _, g in ipairs(list) do g() end
    return told(#list, #asked)
  end
  local ok, err = pcall(f)
  timing.medians = before
  if not ok then error(err, 0) end
  return asked
end

local function compiled(f, opts)
  local lines = {}
  opts = opts or {}
  opts.say = function(line) lines[#lines + 1] = line end
  return ridge.compile(f, opts), lines
end

-- Calls f with every plan that is released meanwhile counted.
local function released(f)
  local meta = getmetatable(ridge.capture(function() return ridge.ones(1) + 1 end)).__index
  local before, set, n = meta.release, {}, 0
  meta.release = function(p)
    if not set[p] then set[p], n = true, n + 1 end
    return before(p)
  end
  local ok, err = pcall(f)
  meta.release = before
  if not ok then error(err, 0) end
  return n, set
end

local function double(x) return x * 2 end

describe("a compiled function's mode auto", function()
  local function mode_of(ms)
    local c, lines
    local x = ridge.ones(3)
    with_times(function(n) return n == 4 and ms or { 9, 9, 9 } end, function()
      c, lines = compiled(double, { mode = 'auto' })
      assert.same({ 2, 2, 2 }, c(x):tolist())
      assert.same({ 2, 2, 2 }, c(x):tolist())
    end)
    return c:report()[1], lines
  end

  it('is the fastest of them', function()
    -- in this order: reduce-overhead, max-autotune, default, the function itself
    for i, mode in ipairs { 'reduce-overhead', 'max-autotune', 'default' } do
      local ms = { 5, 5, 5, 9 }
      ms[i] = 3
      local row = mode_of(ms)
      assert.equal(mode, row.mode)
      assert.equal(3, row.steady_ms)
      assert.equal(9, row.eager_ms)
      assert.is_nil(row.why)
    end
  end)

  it('is the first of equal ones', function()
    assert.equal('reduce-overhead', mode_of({ 5, 5, 5, 9 }).mode)
    assert.equal('reduce-overhead', mode_of({ 5, 6, 7, 5 }).mode) -- and no slower than eager
  end)

  it('is the function itself where that is faster', function()
    local row, lines = mode_of { 5, 6, 7, 4 }
    assert.equal('eager', row.mode)
    assert.equal('the function itself is the fastest: 4 ms, the best plan 5', row.why)
    assert.equal('compile: f32[3]: the function itself is the fastest: 4 ms, the best plan 5; now '
      .. 'the function as it is', lines[#lines])
  end)

  it('releases what it does not take', function()
    local x = ridge.ones(3)
    local function count(ms)
      local c = compiled(double, { mode = 'auto' })
      local n, set
      with_times(function(k) return k == 4 and ms or { 9, 9, 9 } end, function()
        n, set = released(function() c(x) end)
      end)
      return n, set, c
    end
    local all = count { 5, 5, 5, 4 } -- eager: each one
    local n, set, c = count { 5, 4, 5, 9 }
    assert.equal(all - 1, n)
    for size in c.shelf:each() do assert.is_nil(set[size.made.plan]) end
  end)
end)

describe("a compiled function's plans", function()
  it('are released where their size goes, and no others', function()
    local c = compiled(double, { plans = 2 })
    c(ridge.ones(1))
    c(ridge.ones(2))
    local plans = {}
    for size in c.shelf:each() do plans[size.text] = size.made.plan end
    assert.equal(0, (released(function() c(ridge.ones(2)) end)))
    local _, set = released(function() c(ridge.ones(3)) end)
    assert.is_true(set[plans['f32[1]']])
    assert.is_nil(set[plans['f32[2]']])
  end)

  it('are eight unless more are asked for', function()
    local c = compiled(double)
    for n = 1, 9 do c(ridge.ones(n)) end
    assert.equal(8, #c:report())
    assert.equal('compiled function, mode default, 8 sizes so far', tostring(c))
    assert.equal('compiled function, mode auto, 0 sizes so far',
      tostring((compiled(double, { mode = 'auto' }))))
    c = compiled(double)
    c(ridge.ones(1))
    assert.equal('compiled function, mode default, 1 size so far', tostring(c))
  end)

  it('of a parameter that was replaced go', function()
    local net = nn.Linear(2, 2, { seed = 1 }):eval()
    local c, lines = compiled(net)
    local x = ridge.ones(1, 2)
    c(x)
    local plan
    for size in c.shelf:each() do plan = size.made.plan end
    net.weight = ridge.ones(2, 2)
    local _, set = released(function() c(x) end)
    assert.is_true(set[plan])
    assert.matches('it is compiled again', table.concat(lines, '\n'), 1, true)
  end)
end)

describe("a compiled function's words", function()
  it('are those of what it cannot be', function()
    local c = compiled(double)
    for text, f in pairs {
      ['compile: it is called as a function, f(x)'] = function()
        getmetatable(c).__call({}, ridge.ones(1))
      end,
      ['compile: a function is expected, got 3'] = function() ridge.compile(3) end,
    } do
      local ok, err = pcall(f)
      assert.is_false(ok)
      assert.matches(text, tostring(err), 1, true)
      assert.equal('EARG', err.code)
    end
  end)

  it('are those of what stays outside, at the second call', function()
    local kept_one
    local c, lines = compiled(function(x)
      kept_one = x * 3
      return x * 2
    end)
    c(ridge.ones(2))
    c(ridge.ones(2))
    assert.equal(1, #lines)
    assert.equal('compile: f32[2]: it leaves a tensor behind that it does not return, and a plan '
      .. 'does not; now the function as it is', lines[1])
    assert.same({ 3, 3 }, kept_one:tolist())
  end)
end)

describe('max-autotune', function()
  local x
  setup(function() x = ridge.randn(2, 8) end)
  before_each(function() choices.forget() end)
  teardown(function() choices.forget() end)

  local function net()
    return nn.Sequential(nn.Linear(8, 8, { seed = 1 }), nn.ReLU()):eval()
  end

  -- What was chosen where each other way takes such a part of the time of what there is.
  local function chosen(part)
    with_times(function(n) return n == 2 and { 100, 100 * part } or { 9, 9 } end, function()
      local c = compiled(net(), { mode = 'max-autotune' })
      c(x)
      assert.equal('max-autotune', c:report()[1].mode)
    end)
    local found = {}
    for _, row in ipairs(kept.all()) do found[row.operation] = row end
    choices.forget()
    return found
  end

  it('takes another way where it needs less than 97 % of the time', function()
    local found = chosen(0.96)
    assert.equal('without epilogue_fusion', found.passes.path)
    assert.equal('all', found.passes.standard)
    found = chosen(0.97)
    assert.equal('all', found.passes.path)
    assert.equal('joined', found.epilogue.path)
    assert.equal('joined', found.epilogue.standard)
    assert.equal(timing.ROUNDS, found.epilogue.rounds)
    assert.equal('all', chosen(1.5).passes.path)
  end)

  it('takes one kind of node apart where that is faster, and obeys what was found', function()
    local want = net()(x)
    local function ops_of(c)
      local ops = {}
      for size in c.shelf:each() do
        assert.equal('max-autotune', size.mode)
        for _, n in ipairs(size.made.plan.emitted:nodes()) do ops[#ops + 1] = n.op end
      end
      return ops
    end
    local tried, counts = 0, {}
    with_times(function(n)
      if n == 1 then return { 9 } end
      if n == 2 then tried = tried + 1 end
      return tried == 2 and { 100, 50 } or { 100, 100 }
    end, function()
      for i, times in ipairs { 2, 2, 3 } do -- the third time it is tried anew
        if times == 3 then choices.forget() end
        local c = compiled(net(), { mode = 'max-autotune' })
        assert.is_true((c(x) - want):abs():max():item() < 1e-5)
        assert.same(times == 2 and { 'linear', 'relu' } or { 'linear' }, ops_of(c))
        counts[i] = tried
      end
    end)
    assert.same({ 3, 4, 7 }, counts) -- a pass, a kind of node, and the plan beside the function
  end)

  it('keeps the times of what was tried', function()
    local found = chosen(0.99)
    assert.equal(100e6, found.epilogue.times.joined.ns)
    assert.equal(99e6, found.epilogue.times.apart.ns)
    assert.equal(100e6, found.passes.times.all.ns)
    assert.equal(99e6, found.passes.times['without epilogue_fusion'].ns)
  end)

  it('releases each plan that it does not take', function()
    for _, part in ipairs { 0.5, 2 } do
      with_times(function(n) return n == 2 and { 100, 100 * part } or { 9, 9 } end, function()
        local live = {}
        local meta = getmetatable(ridge.graph(double, x)).__index
        local before = meta.plan
        meta.plan = function(g)
          local p = before(g)
          live[p] = true
          return p
        end
        local c = compiled(net(), { mode = 'max-autotune' })
        local ok, err = pcall(function()
          local _, set = released(function() c(x) end)
          for p in pairs(set) do live[p] = nil end
        end)
        meta.plan = before
        assert.is_true(ok, tostring(err))
        local n = 0
        for p in pairs(live) do
          n = n + 1
          for size in c.shelf:each() do assert.equal(size.made.plan, p) end
        end
        assert.equal(1, n)
      end)
      choices.forget()
    end
  end)
end)

describe('an activation apart from its product', function()
  local function recorded(k)
    local parts = {}
    for i = 1, k do
      parts[2 * i - 1], parts[2 * i] = nn.Linear(i, i + 1, { seed = i }), nn.ReLU()
    end
    return ridge.graph(nn.Sequential(unpack(parts)):eval(), ridge.randn(2, 1))
      :optimize { 'epilogue_fusion' }
  end

  it('is of kinds, those of most operations first, twelve at most', function()
    local kinds = apart.kinds(recorded(3))
    assert.equal(3, #kinds)
    assert.matches('^linear f32%[2,3%] f32%[4,3%] f32%[4%] .*act=relu', kinds[1])
    assert.matches('^linear f32%[2,1%]', kinds[3])
    kinds = apart.kinds(recorded(13))
    assert.equal(12, #kinds)
    assert.matches('^linear f32%[2,2%]', kinds[12])
    assert.same({}, apart.kinds(ridge.graph(nn.Linear(2, 2):eval(), ridge.ones(1, 2))))
  end)

  it('is made of those that are told', function()
    local g = recorded(2)
    local kinds, ops = apart.kinds(g), {}
    apart.edit { [kinds[1]] = true }(g)
    for _, n in ipairs(g:nodes()) do ops[#ops + 1] = n.op .. ' ' .. tostring(n.args.act) end
    assert.same({ 'linear relu', 'linear none', 'relu nil' }, ops)
    assert.equal(1, #apart.kinds(g))
  end)

  it('is none of what a backward pass computes again', function()
    local function fake(more)
      local n = { op = 'linear', args = { act = 'relu' }, inputs = {}, outputs = { {} }, flops = 1 }
      for key, value in pairs(more) do n[key] = value end
      return { nodes = function() return { n } end }
    end
    assert.same({ 'linear  act=relu' }, apart.kinds(fake {}))
    for _, more in ipairs { { recomputed = true }, { parent = {} }, { outputs = { {}, {} } },
      { args = { act = 'none' } }, { args = {} } } do
      assert.same({}, apart.kinds(fake(more)))
    end
    assert.same({ 'linear f32[2,3] - act=relu pad=1x2' }, apart.kinds(fake {
      inputs = { { dtype = 'f32', shape = { 2, 3 } }, false },
      args = { pad = { 1, 2 }, act = 'relu' } }))
  end)
end)

describe("a pass's worth", function()
  it('is told by what is measured without it', function()
    local g = ridge.graph(nn.Sequential(nn.Linear(8, 8), nn.ReLU()):eval(), ridge.ones(2, 8))
      :optimize { 'epilogue_fusion', 'batch_norm_folding' }
    local before, asked = ab.ab, nil
    for verdict, want in pairs { slower = 'the pass is faster', faster = 'the pass is slower',
      equal = 'no difference', open = 'open' } do
      ab.ab = function(given)
        asked = given
        return { ratio = 1.25, ci_lo = 1.125, ci_hi = 1.5, verdict = verdict }
      end
      local ok, rows = pcall(g.ablate, g, ridge.ones(2, 8), { blocks = 7 })
      ab.ab = before
      assert.is_true(ok, tostring(rows))
      assert.equal(7, asked.blocks)
      assert.same({ 'epilogue_fusion', 'batch_norm_folding' }, { rows[1].pass, rows[2].pass })
      assert.same({ want, 1.25, 1.125, 1.5, false }, { rows[1].verdict, rows[1].ratio,
        rows[1].ci_lo, rows[1].ci_hi, rows[1].idle })
      assert.same({ 'no difference', true, 0 }, { rows[2].verdict, rows[2].idle, rows[2].bytes })
      assert.is_nil(rows[2].result)
      local text = tostring(rows)
      assert.matches('epilogue_fusion +1%.250 +1%.125 %.%. 1%.500 +' .. want, text)
      assert.matches('batch_norm_folding +does nothing here +no difference +%+0', text)
    end
  end)

  it('says why an interval without 1 decides nothing', function()
    local g = ridge.graph(nn.Sequential(nn.Linear(8, 8), nn.ReLU()):eval(), ridge.ones(2, 8))
      :optimize { 'epilogue_fusion' }
    local before = ab.ab
    local function text_of(lo, verdict, more)
      ab.ab = function()
        local r = { ratio = 1.25, ci_lo = lo, ci_hi = 1.5, verdict = verdict, floor = 0.1 }
        for key, value in pairs(more or {}) do r[key] = value end
        return r
      end
      local ok, rows = pcall(g.ablate, g, ridge.ones(2, 8))
      ab.ab = before
      assert.is_true(ok, tostring(rows))
      return tostring(rows)
    end
    local noise = 'open: a plan beside itself differs by '
    assert.matches(noise .. '49', text_of(1.125, 'open', { floor = 0.4 }), 1, true)
    assert.matches(noise .. '11', text_of(1.125, 'open', { floor = 0.1, aa_fail = true }), 1, true)
    assert.matches('open: too few blocks, or they disagree', text_of(1.125, 'open'), 1, true)
    assert.is_nil(text_of(0.9, 'open', { floor = 0.4 }):find('open:', 1, true))
    assert.is_nil(text_of(1.125, 'slower'):find('open', 1, true))
  end)

  it('counts the bytes of both plans when they have run', function()
    local function taken(graph)
      local plan = graph:plan()
      plan:run()
      return plan:facts().buffer_bytes
    end
    local x = ridge.ones(2, 3, 16, 16)
    local g = ridge.graph(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm(8)):eval(), x)
    local h = g:optimize { 'dead_code_elimination', 'batch_norm_folding' }
    local before = ab.ab
    ab.ab = function() return { ratio = 1, ci_lo = 1, ci_hi = 1, verdict = 'equal' } end
    local ok, rows = pcall(h.ablate, h, x)
    ab.ab = before
    assert.is_true(ok, tostring(rows))
    assert.same({ true, 0 }, { rows[1].idle, rows[1].bytes })
    assert.equal(taken(g:optimize { 'dead_code_elimination' }) - taken(h), rows[2].bytes)
    assert.is_true(taken(h) > h:plan():facts().buffer_bytes) -- scratch, which the first run takes
  end)

  it('is refused of a graph as it was recorded', function()
    local g = ridge.graph(double, ridge.ones(2))
    local ok, err = pcall(g.ablate, g)
    assert.is_false(ok)
    assert.matches('no passes have run on this graph', tostring(err), 1, true)
    g = g:optimize {}
    for _, x in ipairs { 3, 'x', true } do
      ok, err = pcall(g.ablate, g, x)
      assert.is_false(ok)
      assert.matches('graph:ablate: x is a tensor, or a table of tensors, got ', tostring(err), 1,
        true)
    end
    ok, err = pcall(g.ablate, g, nil, 3)
    assert.is_false(ok)
    assert.matches('graph:ablate: options are a table, got 3', tostring(err), 1, true)
  end)
end)

describe('times of candidates', function()
  it('are medians of all rounds, each in turn', function()
    local order = {}
    local ms = timing.medians { function() order[#order + 1] = 1 end,
      function() order[#order + 1] = 2 end }
    assert.equal(2, #ms)
    assert.equal(2 * timing.ROUNDS, #order)
    for i = 1, #order do assert.equal(2 - i % 2, order[i]) end
  end)

  it('are of three rounds at least', function()
    local clock, n = require('ridge.ffi.lib'), 0
    local start = tonumber(clock.rg_clock_ns())
    timing.medians { function()
      n = n + 1
      while tonumber(clock.rg_clock_ns()) - start < n * 60e6 do end
    end }
    assert.equal(3, n)
  end)

  it('of one call come with what it gave', function()
    local ms, a, b, c = timing.once(function() return 1, nil, 3 end)
    assert.is_true(ms >= 0 and ms < 1000)
    assert.same({ 1, 3 }, { a, c })
    assert.is_nil(b)
  end)
end)

describe('the report of a compiled function', function()
  local function of(size)
    return report.of { shelf = { each = function()
      local done
      return function()
        if not done then
          done = true
          return size
        end
      end
    end } }
  end

  local function row(more, made)
    local size = { text = 'f32[2]', mode = 'default', calls = 3, cost_ms = 20, eager_ms = 4,
      recording = { ms = 1 }, made = { passes_ms = 2, emit_ms = 3, first_ms = 5, steady_ms = 2,
        same = true, names = {} } }
    for key, value in pairs(more or {}) do size[key] = value end
    for key, value in pairs(made or {}) do size.made[key] = value end
    return of(size)
  end

  it('says when it pays', function()
    assert.equal('f32[2]: default, same bits\n'
      .. '  record 1, passes 2, emit 3, first 5, steady 2, eager 4 ms\n'
      .. '  3 calls; it pays after 9', tostring(row()))
    assert.matches('; it has paid after 9$', tostring(row { calls = 9 }))
    assert.matches('; it pays after 9$', tostring(row { calls = 8 }))
    assert.equal(1, row({ cost_ms = 1 })[1].pays_after)
    assert.equal(2, row({ cost_ms = 6 })[1].pays_after)
    assert.equal(3, row({ cost_ms = 6.5 })[1].pays_after)
    assert.matches('  1 call; it pays', tostring(row { calls = 1 }))
  end)

  it('says where it never does, and where nobody knows', function()
    for _, steady in ipairs { 4, 5 } do
      local r = row(nil, { steady_ms = steady })
      assert.is_nil(r[1].pays_after)
      assert.matches('; it never pays: the plan is no faster$', tostring(r))
    end
    local r = of { text = 'f32[2]', mode = 'default', calls = 1, cost_ms = 20,
      recording = { ms = 1 }, made = { passes_ms = 2, emit_ms = 3, first_ms = 5, steady_ms = 2,
        same = false, difference = 0.0123 } }
    assert.matches('^f32%[2%]: default, off by 0%.012\n', tostring(r))
    assert.matches('; nobody knows when it pays: the function was not timed$', tostring(r))
  end)

  it('says why the function itself runs', function()
    local r = row { mode = 'eager', why = 'it is faster', calls = 2 }
    assert.equal('f32[2]: eager\n  it is faster\n  2 calls', tostring(r))
    assert.is_nil(r[1].steady_ms)
    assert.equal('nothing is compiled yet: call it', tostring(of()))
    assert.equal(0, #of { text = 'f32[2]', calls = 0 })
  end)
end)

describe('the key of a call', function()
  local function size(...) return arguments.size(arguments.key(...)) end

  it('has types, shapes, and all else as it is', function()
    local x = ridge.ones(2, 3)
    assert.equal('f32[2,3] i64[1]', size(x, ridge.zeros(1, { dtype = 'i64' })))
    assert.equal('f32[] 1 0.10000000000000001 true nil "a\\nb"',
      size(ridge.tensor(1), 1, 0.1, true, nil, 'a\nb'))
    assert.not_equal(arguments.key(x:to 'f64'), arguments.key(x))
    assert.not_equal(arguments.key(1), arguments.key '1')
    local ok, err = pcall(arguments.key, x, {})
    assert.is_false(ok)
    assert.matches('compile: argument 2 is a table; a compiled function takes tensors, numbers, '
      .. 'texts and booleans, and reads all else as it was when it was compiled', tostring(err), 1,
      true)
  end)

  it('has what lies in one memory, and what is the same', function()
    local x = ridge.ones(2, 2)
    local start = #arguments.key(1):match '|.*$'
    local function rest(...) return arguments.key(...):match('|.*$'):sub(start + 1) end
    assert.equal('', rest(x, ridge.ones(2, 2)))
    assert.equal('1=2', rest(x, x))
    assert.equal('1=2', rest(x, x:detach()))
    for _, view in ipairs { x:t(), x:reshape(4), x:narrow(1, 1, 1), x:narrow(1, 2, 1) } do
      assert.equal('1~2', rest(x, view))
    end
    assert.equal('1=2 1=3', rest(x, x, x))
    assert.equal('2=4', rest(1, x, 2, x))
  end)

  it('has modes: gradients, autocast, inference', function()
    local x, w = ridge.ones(2), ridge.ones(2):requires_grad_()
    local key = arguments.key(x)
    assert.not_equal(key, arguments.key(w))
    ridge.no_grad(function()
      assert.not_equal(key, arguments.key(x))
      assert.equal(arguments.key(x), arguments.key(w))
      assert.is_false(arguments.want_gradients { n = 1, w })
    end)
    assert.is_true(arguments.want_gradients { n = 2, 1, w })
    assert.is_false(arguments.want_gradients { n = 2, 1, x })
  end)

  it('is copied with what is the same once', function()
    local x, y = ridge.ones(2), ridge.zeros(2)
    local list = arguments.copies { n = 4, x, 7, x, y }
    assert.equal(list[1], list[3])
    assert.not_equal(list[1], x)
    assert.same({ 4, 7 }, { list.n, list[2] })
    arguments.fill(list, { n = 4, y, 7, y, x })
    assert.same({ { 0, 0 }, { 1, 1 } }, { list[1]:tolist(), list[4]:tolist() })
  end)
end)
