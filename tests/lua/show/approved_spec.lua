-- SPDX-License-Identifier: MIT
-- What is printed of values, word by word: tensors of every type and shape, tables, pictures of
-- characters, profiles, timelines, the landscape's table and verdict; and the options of every
-- public function with their types, ranges and defaults.  All of it over values written here.

local approved = dofile 'tests/lua/approved.lua'
local argument = require 'ridge.repl.argument'
local chart = require 'ridge.show.chart'
local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local fixture = dofile 'tests/lua/plot/fixture.lua'
local help = require 'ridge.repl.help'
local landscape = require 'ridge.report.landscape'
local names = require 'ridge.repl.names'
local options = require 'ridge.options'
local profile_text = require 'ridge.profile.text'
local ratio = require 'ridge.show.ratio'
local ridge = require 'ridge'
local show = require 'ridge.show'
local summary = require 'ridge.show.summary'

local NAN, INF = 0 / 0, math.huge

-- Titles and texts, one under the other.
local function page()
  local parts = {}
  return function(title, text) parts[#parts + 1] = ('# %s\n%s\n'):format(title, tostring(text)) end,
    function() return table.concat(parts, '\n') end
end

local function counted(n, f)
  local list = {}
  for i = 1, n do
    if f then list[i] = f(i) else list[i] = i end
  end
  return list
end

describe('whole texts', function()
  it('of tensors', function()
    local put, text = page()
    for _, dtype in ipairs { 'f64', 'f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i64', 'i32', 'u8',
        'i8', 'bool' } do
      put(dtype, ridge.tensor({ 0, 1, 2, 4 }):to(dtype):view(2, 2))
    end
    put('a scalar', ridge.tensor(2.5))
    put('a whole scalar', ridge.tensor(-3))
    put('a scalar of i64', ridge.tensor(7, { dtype = 'i64' }))
    put('a true scalar', ridge.tensor(true, { dtype = 'bool' }))
    put('what is no number', ridge.tensor { NAN, INF, -INF, 0, 1 })
    put('nothing else', ridge.tensor { NAN, NAN })
    put('a negative zero', ridge.tensor({ 0, -0.0, 1 }):mul(-1))
    put('large', ridge.tensor { 1e5, 99999, -123456 })
    put('large with fractions', ridge.tensor { 1e5, 0.5 })
    put('below large', ridge.tensor { 99999, 0.5 })
    put('small', ridge.tensor { 1e-4, 9e-4, 0 })
    put('not small', ridge.tensor { 1e-4, 1e-3 })
    put('subnormal', ridge.tensor({ 1e-310, 5e-324 }, { dtype = 'f64' }))
    put('huge', ridge.tensor({ 1e308, -1e300 }, { dtype = 'f64' }))
    put('empty', ridge.zeros(0))
    put('empty rows', ridge.zeros(3, 0, 2))
    put('one', ridge.ones(1, 1, 1))
    put('eight', ridge.arange(1, 8))
    put('nine: the spread is said', ridge.arange(1, 9))
    put('nine alike', ridge.ones(9))
    put('23, without bars', ridge.arange(1, 23))
    put('24, with bars', ridge.arange(1, 24))
    put('nan among many', ridge.tensor(counted(30, function(i)
      return i == 3 and NAN or i == 5 and INF or i
    end)))
    put('true among many', ridge.tensor(counted(10, function(i) return i > 3 end),
      { dtype = 'bool' }))
    put('three axes', ridge.arange(1, 12):view(2, 2, 3))
    put('four axes', ridge.arange(1, 16):view(2, 2, 2, 2))
    put('more than a thousand', ridge.arange(1, 1001))
    put('a thousand', ridge.arange(1, 1000):view(500, 2):narrow(1, 1, 4))
    put('a large matrix', ridge.arange(1, 1200):view(30, 40))
    put('a wide matrix', ridge.arange(1, 60):view(2, 30))
    put('many small ones', ridge.arange(1, 1400):view(7, 100, 2))
    put('columns of another order', ridge.arange(1, 6):view(2, 3):t())
    put('with a gradient', ridge.zeros(2):requires_grad_())
    put('a result with a gradient', ridge.ones(2):requires_grad_() * 2)
    for _, width in ipairs { 20, 40, 120 } do
      put(('in %d columns'):format(width), show.tensor { dtype = 'f32', shape = { 30 },
        width = width, get = function(i) return i / 8 end })
      put(('a matrix in %d columns'):format(width), show.tensor { dtype = 'i32',
        shape = { 2, 25 }, width = width, get = function(i) return i * 100 end })
    end
    put('too many to count', show.tensor { dtype = 'f32', shape = { 2 ^ 20, 2 ^ 20 }, get = false,
      flags = { 'expanded' }, bytes = 4, stats = { mean = 0.5, std = 0, min = 0.5, max = 0.5 } })
    put('of a caller that has the statistics', show.tensor { dtype = 'f32', shape = { 2 ^ 21 },
      get = function(i) return i % 2 end, bytes = 2 ^ 23, device = 'cuda:0',
      stats = { mean = 123456.5, std = 2, min = -1e-4, max = 1e7, nan = 3, inf = 1 } })
    -- of 2^21 every second one is looked at: 0, 2, 4, 6, 1, 3, 5 ...
    put('sampled', show.tensor { dtype = 'f32', shape = { 2 ^ 21 },
      get = function(i) return i % 7 == 3 and i % 2 == 0 and NAN or i % 7 end })
    colour.enabled = true
    put('in colours', (tostring(ridge.tensor { NAN, 1 }):gsub('\27', 'ESC')))
    colour.enabled = false
    approved.check('show/tensors', text())
  end)

  it('of modules and plans', function()
    local put, text = page()
    local nn = ridge.nn
    for name, module in pairs { a_linear = nn.Linear(2, 3),
        b_bare = nn.Linear(2, 3, { bias = false }),
        c_fused = nn.Linear(2, 3, { activation = 'relu' }),
        d_lowrank = nn.LowRankLinear(8, 4, { rank = 2 }),
        e_sketched = nn.SKLinear(8, 4, { num_terms = 2, low_rank = 3 }),
        f_drop = nn.Dropout(0.25), g_net = nn.Sequential(nn.Linear(2, 3),
          nn.Sequential(nn.GELU(), nn.Linear(3, 1))) } do
      put(name, module)
      put(name .. ' has', ('%d of %d, %d bytes'):format(module:num_parameters(),
        select(2, module:num_parameters()), module:num_bytes()))
    end
    local parts = {}
    for part in (text() .. '\n'):gmatch '(# .-\n)\n' do parts[#parts + 1] = part end
    table.sort(parts)
    approved.check('show/modules', table.concat(parts))
  end)

  it('of numbers in words', function()
    local put, text = page()
    local list = {}
    for _, n in ipairs { 0, 1, 1023, 1024, 1025, 1536, 10239, 10240, 1048575, 2 ^ 20, 2 ^ 30,
        2 ^ 40, 2 ^ 50 } do
      list[#list + 1] = ('%.0f: %s'):format(n, summary.bytes(n))
    end
    put('bytes', table.concat(list, '\n'))
    list = {}
    for _, x in ipairs { 0, 0.4, 0.5, 0.501, 0.98, 1, 1.025, 1.999, 2, 22, 1e6, INF, -1, NAN } do
      list[#list + 1] = ('%s: %s'):format(tostring(x):gsub('^%-nan', 'nan'), ratio.text(x))
    end
    put('ratios', table.concat(list, '\n'))
    list = {}
    for _, r in ipairs { { 0.98, 1.03 }, { 0.9, 22 }, { 0.5, 0.9 }, { 0, 1 }, { 0.9, INF },
        { 1, nil } } do
      list[#list + 1] = ratio.range(r[1], r[2])
    end
    list[#list + 1] = ratio.range(0.98, 1.03, ' to ')
    list[#list + 1] = ('%g %g %s %g'):format(ratio.lower(10, -5, 20), ratio.lower(10, 4, 20),
      tostring(ratio.lower(10, nil, 20)), ratio.lower(0.5, 0, 2))
    put('ranges', table.concat(list, '\n'))
    put('bars', summary.spark { 0, 1, 2, 3, 4, 5, 6, 7, 8, 100 } .. '|' .. summary.spark { 0, 0 })
    put('shape', summary.shape {} .. summary.shape { 2, 3 } .. summary.shape { 2 ^ 53 })
    put('a table', columns.text({ 'name', 'n', 'to the right' }, { { 'x', 1, 'a' },
      { 'longer', 20.5, 'bb' }, { nil, 2 ^ 53 - 1, 'c' }, { 'half', 2 ^ 53, nil },
      { 'a\nb', 1LL, '' } }, { right = { [3] = true } }))
    put('a wide cell', columns.text({ 'one', 'n' }, { { ('w'):rep(70), 1 } }))
    put('a table in 20 columns', columns.text({ 'name', 'n' }, { { ('x'):rep(15), 12345678 } },
      { width = 20 }))
    put('cut', columns.cut('12345', 5) .. '|' .. columns.cut('123456', 5) .. '|'
      .. columns.cut('äöüßé', 5) .. '|' .. columns.cut('äöüßéx', 5))
    put('a line', chart.line({ 1, 4, 2, NAN, -INF, 8 }, 20))
    put('a thin line', chart.line(counted(40), 12))
    put('a flat line', chart.line({ 2, 2 }, 20))
    put('no line', chart.line({ NAN }, 20))
    put('a field', chart.field { { 0, 1, 2 }, { 3, NAN, 5 } })
    put('means of neighbours', table.concat(chart.thin({ 1, 3, NAN, 5, 7, 9 }, 3), ' '))
    colour.enabled = true
    local painted = {}
    for _, kind in ipairs { 'error', 'number', 'string', 'constant', 'key', 'other', 'dim', 'bold',
        'bad' } do
      painted[#painted + 1] = colour.paint(kind, kind)
    end
    colour.enabled = false
    put('colours', (table.concat(painted, ' '):gsub('\27', 'ESC')))
    put('without them', colour.strip(painted[1]) .. ' ' .. colour.width(painted[1] .. 'é'))
    approved.check('show/words', text())
  end)

  it('of profiles', function()
    local put, text = page()
    local function op(name, path, calls, ns, flops, bytes)
      return { op = name, path = path, calls = calls, ns = ns, flops = flops, bytes = bytes }
    end
    local steps = {}
    for i = 1, 42 do
      steps[i] = { step = i, plan = 1, op = 'add', calls = 2, ns = 1000 * i, flops = 0, bytes = 0,
        module = i == 1 and 'Linear' or nil, shapes = 'f32[2,3]' }
    end
    local p = { ns = 1e6, op_ns = 9e5, steps = {}, lines = {}, samples = 0, states = {}, graphs = 0,
      operations = { op('matmul', 'onednn', 5, 6e5, 1.2e6, 3e5),
        op('relu', '', 1, 3e5, 0, 1.5e6) } }
    put('operations', profile_text.text(p))
    p.operations[1].device_ns = 3e5
    p.full, p.dropped, p.graphs = true, 7, 2
    put('of a device, with some missing', profile_text.text(p))
    p.full, p.graphs, p.steps = false, 1, { unpack(steps, 1, 2) }
    put('two steps', profile_text.text(p))
    p.graphs, p.steps = 0, { unpack(steps, 1, 41) }
    put('a step too many', profile_text.text(p):match '[^\n]*$')
    steps[42].plan = 2
    p.steps = steps
    put('two steps too many, of two plans', profile_text.text(p):match '\nstep.*')
    p.steps, p.samples = {}, 1
    p.lines, p.states = { { line = 'x.lua:3', share = 0.75 } }, { Lua = 0.75, C = 0.25 }
    put('a line', profile_text.text(p))
    p.samples = 12
    p.lines = counted(12, function(i) return { line = 'l' .. i, share = i / 100 } end)
    put('ten lines of twelve', profile_text.text(p):match '\n(line of.*)')
    p.op_ns, p.samples = 2e6, 0
    put('more in the operations than there is', profile_text.text(p))
    approved.check('show/profile', text())
  end)

  it('of analyses', function()
    local put, text = page()
    local told = require 'ridge.analyze.text'
    local function layer(name, class, params, flops, other, ms)
      return { name = name, class = class, part = true, calls = 1, params = params, buffers = 0,
        bytes = 4 * params, flops = flops, other_flops = other, backward_flops = 2 * flops,
        backward_other_flops = other, saved_bytes = 10 * other, ms = ms, backward_ms = 2 * ms,
        share = 3 * ms / 10, gflops = flops / ms / 1e6, backward_gflops = flops / ms / 1e6 }
    end
    local a = { class = 'nn.Sequential', batch = 32, dtype = 'f32', device = 'cpu', params = 1274,
      bytes = 5096, flops = 4e7, multiply_adds = 2e7, other_flops = 5e5, backward_flops = 8e7,
      saved_bytes = 5e6, rounds = 7, step_ms = 9.9, watched_ms = 10, layers_ms = 9,
      layers_forward_ms = 3, outside = { ms = 0.25, backward_ms = 0.75, saved_bytes = 0 },
      notes = {}, backward = true, layers = { layer('nn.Sequential', 'nn.Sequential', 0, 0, 0, 0.5),
        layer('1', 'nn.Linear', 1000, 3e7, 0, 2), layer('2.inner', 'nn.Linear', 274, 1e7, 0, 0.25),
        layer('2.act', 'nn.ReLU', 0, 0, 5e5, 0.25) } }
    put('a step', told.text(a))
    put('below one name', told.text(a, { depth = 1 }))
    put('two layers', told.text(a, { rows = 2 }))
    for _, l in ipairs(a.layers) do l.roof, l.roof_ms, l.backward_roof_ms = 'compute', 0.1, 0.2 end
    a.layers[3].calls, a.notes = 2, { 'weight of 2 is 1.weight: counted there' }
    put('with roofs, called twice, a note', told.text(a))
    a.backward, a.outside.backward_ms, a.batch = false, 0, nil
    put('forward alone', told.text(a))
    a.step_ms = nil
    put('counted alone', told.text(a))
    put('bottlenecks', told.bottlenecks { limit = 0.2,
      { name = '1', class = 'nn.Linear', ms = 6, share = 0.6, over = true, roof = 'compute',
        roof_share = 0.25 }, { name = '2', class = 'nn.ReLU', ms = 1, share = 0.1, over = false } })
    put('none', told.bottlenecks { limit = 0.2 })
    approved.check('show/analysis', text())
  end)

  it('of timelines', function()
    local put, text = page()
    local t = ridge.timeline(function() end)
    put('of nothing', t:text())
    local function span(name, device, stream, from, to)
      return { name = name, device = device, stream = stream, begin_s = from, end_s = to }
    end
    t.lost, t.spans = 1, { span('add', 'cpu', 0, 1, 2) }
    put('of a call', t:text(10))
    t.lost = 2
    t.spans = { span('matmul', 'cuda:0', 1, 0.001, 0.005),
      span('copy', 'cuda:0', 0, 0.0005, 0.002), span('relu', 'cuda:0', 1, 0.004, 0.0055),
      span('add', 'cpu', 0, 0.005, 0.0105),
      span('sum', 'cpu', 0, 0.0104999, 0.0105) }
    put('of several streams', t:text())
    put('in 20 cells', t:text(20))
    put('in one', t:text(1))
    put('as a list', t:list())
    put('beside each other', ('%.4f'):format(t:overlap(function(s) return s.stream == 1 end,
      function(s) return s.stream == 0 end)))
    for _, row in ipairs(t:streams()) do
      put(row.key, ('%s %d %d busy %.4f'):format(row.device, row.stream, #row.spans, row.busy_s))
    end
    t.spans = { span('add', 'cpu', 0, 0, 12.5), span('mul', 'cpu', 0, 12.5, 12.5000123) }
    put('of seconds', t:list())
    for _, width in ipairs { 0, 10001, 'x' } do
      put(width, select(2, pcall(t.text, t, width)).message)
    end
    approved.check('show/timeline', text())
  end)

  it('of the landscape', function()
    local put, text = page()
    local shape = { n_in = 1024, n_out = 512, batch = 128 }
    local function rows(opt, change)
      local list = fixture.rows(opt)
      for _, row in ipairs(list) do
        if row.fwd then
          row.fwd_mean, row.fwd_p99 = 1.01 * row.fwd, 1.2 * row.fwd
          row.fwd_gflops, row.fwd_gbps = row.gflops, row.stored_bytes / row.fwd
          row.fwd_flops, row.fwd_bytes = row.gflops * row.fwd, row.stored_bytes
        end
        row.rank = row.layer == 'lowrank' and 2 * row.num_terms * row.low_rank or nil
        row.form = row.layer == 'sketched' and 'stored' or nil
        row.peak_bytes = row.peak_memory_mb * 2 ^ 20
        row.trial = #list
        if change then change(row) end
      end
      return landscape.rows(list, shape)
    end
    local few = { terms = { 2, 8 }, ranks = { 16, 64 } }
    local machine = { threads = 2, l1d = 48 * 1024, l2 = 2 ^ 21, l3 = 2 ^ 25, ceilings = {
      { name = 'fma.f32', value = 4e11 }, { name = 'product.bf16', value = 2e12 },
      { name = 'bw.l1', value = 5e11 }, { name = 'bw.l2', value = 2e11 },
      { name = 'bw.llc', value = 1e11 }, { name = 'bw.dram', value = 2e10 } } }
    local some = rows(few)
    put('the table', landscape.table(some, machine))
    put('the verdict', landscape.verdict(some, shape))
    local all = rows()
    put('the verdict of all', landscape.verdict(all, shape))
    some = rows(few, function(row)
      if row.layer == 'dense' and row.dtype == 'bf16' then row.grade, row.flags = 'D', 'FOREIGN' end
      if row.num_terms == 8 and row.layer == 'sketched' then row.grade = 'D' end
    end)
    put('disturbed', landscape.table(some) .. '\n' .. landscape.verdict(some, shape))
    some = rows(few)
    fixture.fail(some, { layer = 'dense', dtype = 'f32' }, 'oom', '12 GB were asked for')
    fixture.fail(some, { layer = 'sketched', num_terms = 2 }, 'error', 'row 7 is nan\nand more')
    put('failed', landscape.table(some) .. '\n' .. landscape.verdict(some, shape))
    some = rows(few, function(row) row.flags = 'SIMULATED' end)
    put('simulated', landscape.table(some):match '^[^\n]*\n[^\n]*' .. '\n'
      .. landscape.verdict(some, shape))
    put('nothing', landscape.table({}) .. '\n' .. landscape.verdict({}, shape))
    some = rows { dtypes = { 'f32' }, terms = { 2, 4 }, ranks = { 16 } }
    for i = #some, 1, -1 do
      local row = some[i]
      if row.layer == 'sketched' then
        for _, form in ipairs { 'bits', 'seed' } do
          local other = {}
          for key, value in pairs(row) do other[key] = value end
          local faster = form == 'bits' and row.num_terms == 2 and 0.5 or 2
          other.form = form
          for _, name in ipairs { 'fwd', 'fwd_lo', 'fwd_hi' } do
            other[name] = row[name] * faster
          end
          some[#some + 1] = other
        end
      end
    end
    put('forms of the signs', landscape.table(some) .. '\n' .. landscape.verdict(some, shape))
    approved.check('show/landscape', text())
  end)
end)

-- -- Options -------------------------------------------------------------------------------------

local SPEC = {
  count = { 'integer', default = 3, min = 1, max = 10, doc = 'how many' },
  share = { 'number', min = 0 }, most = { 'number', max = 5, nan = true },
  way = { 'string', choices = { 'fast', 'slow' }, doc = 'which way' },
  either = { 'string|boolean', doc = 'a word or a flag' }, list = { 'list' }, any = { 'any' },
  must = { 'string', required = true, doc = 'what must be said' },
  bare = { 'table', required = true },
}

describe('sentences about options', function()
  it('name what is wrong, what was given and what is known', function()
    local put, text = page()
    local function try(title, given)
      if type(given) == 'table' and given.must == nil then given.must = 'x' end
      if type(given) == 'table' and given.bare == nil then given.bare = {} end
      local ok, found = pcall(options.check, SPEC, given, 'test.call')
      if ok then
        local list = {}
        for name, value in pairs(found) do list[#list + 1] = name .. '=' .. type(value) end
        table.sort(list)
        found = { message = 'taken: ' .. table.concat(list, ' '), code = 'none' }
      end
      put(title, ('%s (%s, %s)'):format(found.message, found.code, tostring(found.op)))
    end
    try('nothing but what must be', {})
    try('an unknown one', { zork = 1 })
    try('a near one', { cuont = 1 })
    try('a number for a name', { [1] = 1 })
    for name, values in pairs { count = { 0, 11, 1.5, '3', 2 ^ 53 + 2, NAN, 1, 10 },
        share = { -1, NAN, INF, 'x' }, most = { 6, NAN, -INF }, way = { 'fst', 'fast', true },
        either = { 1, 'x', false }, list = { 'x', { 1 } }, any = { false } } do
      for _, value in ipairs(values) do
        local shown = value ~= value and 'nan' or tostring(value)
        try(('%s = %s'):format(name, type(value) == 'table' and 'a table' or shown),
          { [name] = value })
      end
    end
    try('a number for the table', 3)
    try('a word for the table', 'x')
    try('none', nil)
    put('missing with a reason', select(2, pcall(options.check, { must = SPEC.must }, {}, 'call'))
      .message)
    put('missing', select(2, pcall(options.check, { bare = SPEC.bare }, nil, 'call')).message)
    for title, value in pairs { nothing = {}, places = { 1, 2 }, a_key = { 1, x = 2 },
        a_hole = { 1, [3] = 2 }, zero = { [0] = 1 }, a_half = { [1.5] = 1 } } do
      local ok, found = pcall(options.list, value, 'call')
      put('list: ' .. title, ok and 'taken' or found.message)
    end
    for _, value in ipairs { true, false, 0, 'x', 1, 0.5, -1, 2 } do
      for _, name in ipairs { 'flag', 'count' } do
        local ok, found = pcall(options[name], value, 'call', 'argument')
        put(('%s: %s'):format(name, tostring(value)), ok and 'taken' or found.message)
      end
    end
    -- tables have no order of their own
    local parts = {}
    for part in (text() .. '\n'):gmatch '(# .-\n)\n' do parts[#parts + 1] = part end
    table.sort(parts)
    approved.check('show/option_errors', table.concat(parts))
  end)

  it('agree with what every public function takes', function()
    local lines = {}
    local function shown(value)
      if type(value) == 'table' then return 'a table' end
      return type(value) == 'string' and "'" .. value .. "'" or tostring(value)
    end
    local function add(title, spec)
      lines[#lines + 1] = title
      local keys = {}
      for key in pairs(spec) do keys[#keys + 1] = key end
      table.sort(keys)
      for _, key in ipairs(keys) do
        local rule, parts = spec[key], {}
        parts[1] = rule[1]
        for _, word in ipairs { 'default', 'min', 'max' } do
          if rule[word] ~= nil then parts[#parts + 1] = word .. ' ' .. shown(rule[word]) end
        end
        if rule.required then parts[#parts + 1] = 'required' end
        if rule.nan then parts[#parts + 1] = 'nan' end
        if rule.choices then
          local list = {}
          for i, choice in ipairs(rule.choices) do list[i] = tostring(choice) end
          parts[#parts + 1] = 'one of ' .. table.concat(list, ' ')
        end
        lines[#lines + 1] = ('  %s: %s%s'):format(key, table.concat(parts, ', '),
          rule.doc and '; ' .. rule.doc or '')
      end
    end
    -- compiled, LuaJIT 2.1 of Debian 12 once took a limit that is there for missing: see
    -- lua/ridge/options.lua
    require('jit').off(add, true)
    for _, name in ipairs(names.all(ridge)) do
      local f = ridge
      for part in name:gmatch '%.([%w_]+)' do f = f[part] end
      if type(f) == 'table' then f = help.member(f, 'init') end
      local spec = type(f) == 'function' and argument.spec_of(f)
      if spec then add(name, spec) end
    end
    approved.check('show/options', table.concat(lines, '\n'))
  end)
end)
