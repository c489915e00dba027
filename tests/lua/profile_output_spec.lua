-- SPDX-License-Identifier: MIT
-- What a profile writes: traces, flame graphs, stacks, pictures; each read back by what reads such
-- files, with names that are anything, and a disk that is full.

local ridge = require 'ridge'
local nn = ridge.nn
local canonical = require 'ridge.store.canonical'
local json_schema = dofile 'tests/lua/json_schema.lua'

local NASTY = 'a "b" \\ </title><script>&amp;\n\t\1\255;é'

local function file_of(write)
  local path = os.tmpname()
  write(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  os.remove(path)
  return text
end

local function training()
  local net = nn.Sequential(nn.Linear(16, 16, { seed = 1 }), nn.ReLU(),
    nn.Linear(16, 4, { seed = 2 }))
  local x = ridge.randn(8, 16)
  return ridge.profile(function(p)
    p:section(NASTY, function() net(x):square():mean():backward() end)
  end, { memory = true })
end

local function fixture(name)
  local file = assert(io.open('tests/fixtures/' .. name))
  local text = file:read '*a'
  file:close()
  return canonical.decode(text)
end

local TRACE, SPEEDSCOPE = fixture 'trace.schema.json', fixture 'speedscope.schema.json'

-- Every event of Chrome's format has what its phase needs; returns them by phase.
local function checked(text)
  local trace = canonical.decode(text)
  assert.is_nil(json_schema.against(TRACE, trace))
  assert.is_table(trace.traceEvents)
  local by = {}
  for _, e in ipairs(trace.traceEvents) do
    assert.is_string(e.name)
    assert.is_number(e.pid)
    if e.ph ~= 'M' then assert.is_true(e.ts >= 0) end
    if e.ph == 'X' then
      assert.is_true(e.dur >= 0)
      assert.is_number(e.tid)
      assert.is_string(e.cat)
    elseif e.ph == 'C' then
      for _, value in pairs(e.args) do assert.is_number(value) end
    elseif e.ph == 's' or e.ph == 'f' then
      assert.is_number(e.id)
      assert.is_number(e.tid)
    else
      assert.equal('M', e.ph)
    end
    by[e.ph] = by[e.ph] or {}
    table.insert(by[e.ph], e)
  end
  return by
end

-- The event of a phase X that a moment lies in, the innermost.
local function slice_at(by, e)
  local found
  for _, x in ipairs(by.X) do
    if x.tid == e.tid and x.ts <= e.ts and e.ts <= x.ts + x.dur
        and (not found or x.dur <= found.dur) then
      found = x
    end
  end
  return found
end

describe('the schema of a trace', function()
  it('takes what Chrome takes, and nothing else', function()
    local function why(event)
      return json_schema.against(TRACE, { traceEvents = { event } })
    end
    local function event(change)
      local e = { ph = 'X', name = 'a', pid = 1, tid = 2, ts = 3, dur = 4, cat = 'op' }
      for key, value in pairs(change) do e[key] = value end
      return e
    end
    assert.is_nil(why(event {}))
    assert.is_nil(why { ph = 'C', name = 'memory', pid = 1, ts = 0, args = { live = 1 } })
    assert.matches('dur is %-1', why(event { dur = -1 }))
    assert.matches('is no integer', why(event { tid = '2' }))
    assert.matches('ph is Y, not X', why(event { ph = 'Y' }))
    assert.matches('colour is not expected', why(event { colour = 'red' }))
    assert.matches('has no dur', why { ph = 'X', name = 'a', pid = 1, tid = 2, ts = 3 })
    assert.matches('live is no number', why { ph = 'C', name = 'memory', pid = 1, ts = 0,
      args = { live = 'x' } })
    assert.matches('has no traceEvents', json_schema.against(TRACE, {}))
  end)
end)

describe('a trace', function()
  it('has calls that nest, memory, and arrows from calls to their gradients', function()
    local p = training()
    local by = checked(file_of(function(path) p:trace(path) end))
    local ops = 0
    for _, x in ipairs(by.X) do if x.cat == 'op' then ops = ops + 1 end end
    local calls = 0
    for _, op in ipairs(p.operations) do calls = calls + op.calls end
    assert.equal(calls, ops)
    -- slices of a track lie in each other, or beside each other
    for _, a in ipairs(by.X) do
      for _, b in ipairs(by.X) do
        local apart = a.ts + a.dur <= b.ts + 0.0015 or b.ts + b.dur <= a.ts + 0.0015
        local inside = a.ts >= b.ts - 0.0015 and a.ts + a.dur <= b.ts + b.dur + 0.0015
          or b.ts >= a.ts - 0.0015 and b.ts + b.dur <= a.ts + a.dur + 0.0015
        assert.is_true(a.tid ~= b.tid or apart or inside)
      end
    end
    assert.is_true(#by.C > 3)
    assert.equal('memory of cpu', by.C[1].name)
    for i = 2, #by.C do -- where it has changed, of one device
      assert.not_equal(by.C[i - 1].args.bytes, by.C[i].args.bytes)
    end
    -- each arrow has two ends, on slices of their own
    assert.equal(#by.s, #by.f)
    local pairs_of, ends = {}, {}
    for _, e in ipairs(by.f) do ends[e.id] = e end
    for _, e in ipairs(by.s) do
      local from, to = slice_at(by, e), slice_at(by, ends[e.id])
      assert.is_true(from.ts < to.ts)
      pairs_of[from.name .. ' ' .. to.name] = true
      if from.args.module then assert.equal(from.args.module, to.args.module) end
    end
    assert.is_true(pairs_of['relu act_back'])
    assert.is_true(pairs_of['linear matmul'])
  end)

  it('says of a call what it was of, and what it cost', function()
    local x = ridge.ones(4, 8)
    local p = ridge.profile(function() x:matmul(ridge.ones(8, 2)) end)
    for _, e in ipairs(checked(file_of(function(path) p:trace(path) end)).X) do
      if e.name == 'matmul' then
        assert.equal('f32[4,8] f32[8,2] -> f32[4,2]', e.args.shapes)
        assert.is_string(e.args.path)
        assert.equal(2 * 4 * 8 * 2, e.args.flops)
        assert.equal(4 * (32 + 16 + 8), e.args.bytes)
        assert.is_nil(e.args.module)
        return
      end
    end
    error 'no matmul'
  end)

  it('has memory where blocks are taken and given back, in no call too', function()
    local most = 0
    local p = ridge.profile(function()
      local x = ridge.empty(2 ^ 20) -- no operation: nothing is written to it
      x:release()
    end, { memory = true, lines = false })
    assert.equal(0, #p.operations)
    local before
    for _, e in ipairs(checked(file_of(function(path) p:trace(path) end)).C) do
      before = before or e.args.bytes - 4 * 2 ^ 20
      most = math.max(most, e.args.bytes)
    end
    assert.is_truthy(before)
    assert.is_true(most - before >= 4 * 2 ^ 20)
  end)

  it('of a schedule has what was measured only, and its first moment is 0', function()
    local x = ridge.randn(8)
    local p = ridge.profile(function() x:exp() end, { num_steps = 9, wait = 2, warmup = 2,
      active = 3 })
    local by = checked(file_of(function(path) p:trace(path) end))
    local n = 0
    for _, e in ipairs(by.X) do n = n + (e.name == 'exp' and 1 or 0) end
    assert.equal(3, n)
    assert.is_true(by.X[1].ts < 1e6)
  end)

  it('of nothing is one', function()
    checked(file_of(function(path) ridge.profile(function() end):trace(path) end))
  end)

  it('says what was dropped', function()
    local x = ridge.randn(4)
    local p = ridge.profile(function() for _ = 1, 3000 do local _ = x + 1 end end,
      { bytes = 2 ^ 15 })
    local text = file_of(function(path) p:trace(path) end)
    assert.equal(tostring(p.dropped), canonical.decode(text).otherData.dropped)
    assert.is_true(p.dropped > 1000)
  end)
end)

describe('a long run', function()
  local ffi = require 'ffi'
  local C = require 'ridge.ffi.lib'

  local function resident_mb()
    for line in io.lines '/proc/self/status' do
      local kb = line:match '^VmRSS:%s*(%d+) kB'
      if kb then return kb / 1024 end
    end
  end

  it('of a million events takes the memory it was given, keeps the last and says what went',
    function()
      local N, range = 1e6, ffi.new 'rg_range'
      range.name = C.rg_range_name 'often'
      local function events()
        for _ = 1, N do
          C.rg_range_enter(range)
          C.rg_range_leave(range)
        end
      end
      local before, behind
      local p = ridge.profile(function()
        before = resident_mb()
        events()
        behind = resident_mb()
      end, { bytes = 2 ^ 22, lines = false })
      assert.is_true(behind - before < 8, behind - before) -- all of them are 122 MB
      local kept = p.sections[1].calls
      assert.is_true(kept >= 2 ^ 22 / 128 and kept < 2 ^ 22 / 128 + 512, kept)
      assert.equal(N - kept, p.dropped)
      assert.is_true(p.full and p.ns < p.all_ns / 2)
      assert.matches(('there were too many, %d are gone'):format(p.dropped), p:text(), 1, true)
    end)
end)

describe('stacks', function()
  it('are lines of frames and nanoseconds', function()
    local p = training()
    local sum, n = 0, 0
    for line in p:folded():gmatch '([^\n]*)\n' do
      local stack, ns = line:match '^(all.*) (%d+)$'
      assert.is_truthy(stack, line)
      assert.is_nil(stack:find '%c')
      sum, n = sum + ns, n + 1
    end
    assert.is_true(math.abs(sum / p.ns - 1) < 0.001 and n > 5)
    local one = ridge.profile(function(q)
      q:section('a;b\nc', function() ridge.ones(9):exp() end)
    end, { lines = false })
    assert.matches('\nall;a_b_c;exp %d+\n', one:folded())
    assert.equal(p:folded(), file_of(function(path) p:folded(path) end))
  end)

  it('of speedscope end where their weights do, which are whole', function()
    local function node(name, ns, within)
      return { name = name, kind = 'op', self_ns = ns, within = within or {} }
    end
    local text = require('ridge.profile.stacks').speedscope { tree = node('all', 10.5,
      { node('a', 0.5), node('b', 2.5), node('c', 3.7), node('d', 0) }) }
    local profile = canonical.decode(text).profiles[1]
    assert.same({ 11, 1, 3, 4 }, profile.weights)
    assert.equal(11 + 1 + 3 + 4, profile.endValue)
    assert.equal(4, #profile.samples)
  end)

  it('of speedscope are its format', function()
    local p = training()
    local file = canonical.decode(file_of(function(path) p:speedscope(path) end))
    assert.is_nil(json_schema.against(SPEEDSCOPE, file))
    assert.is_true(file.activeProfileIndex < #file.profiles)
    file.profiles[1].unit = 'hours'
    assert.matches('none of nanoseconds', json_schema.against(SPEEDSCOPE, file))
    file.profiles[1].unit = 'nanoseconds'
    local empty = ridge.profile(function() end, { lines = false })
    assert.is_nil(json_schema.against(SPEEDSCOPE,
      canonical.decode(file_of(function(path) empty:speedscope(path) end))))
    local profile, frames = file.profiles[1], file.shared.frames
    assert.equal('sampled', profile.type)
    assert.equal('nanoseconds', profile.unit)
    assert.equal(#profile.samples, #profile.weights)
    local sum = 0
    for i, sample in ipairs(profile.samples) do
      sum = sum + profile.weights[i]
      for _, frame in ipairs(sample) do assert.is_string(frames[frame + 1].name) end
    end
    assert.is_true(math.abs(sum - profile.endValue) <= #profile.samples)
  end)
end)

describe('a flame graph', function()
  -- The elements of a document that is well-formed: tags match, and no character is raw.
  local function parse(text)
    assert.matches('^<%?xml version="1.0" encoding="UTF%-8"%?>\n<svg ', text)
    local open, boxes = {}, {}
    local rest = text:gsub('^<%?.-%?>', ''):gsub('<(/?)([%a]+)([^<>]-)(/?)>', function(close, name,
      attributes, alone)
      assert.is_nil(attributes:gsub('="[^"<&]*"', ''):find '["=]', attributes)
      if close == '/' then
        assert.equal(table.remove(open), name)
      elseif alone ~= '/' then
        open[#open + 1] = name
      end
      if name == 'rect' and attributes:find 'x=' then
        boxes[#boxes + 1] = { x = tonumber(attributes:match ' x="([%d.]+)"'),
          y = tonumber(attributes:match ' y="([%d.]+)"'),
          w = tonumber(attributes:match 'width="([%d.]+)"') }
      end
      return ''
    end)
    assert.equal(0, #open)
    assert.is_nil(rest:find '[<>]')
    assert.is_nil(rest:gsub('&%a+;', ''):gsub('&#%d+;', ''):find '&')
    assert.is_nil(rest:find '[%z\1-\8\11-\31\127]')
    return boxes
  end

  it('is well-formed whatever the names are, and boxes lie on what they were in', function()
    local p = training()
    local text = file_of(function(path) p:flame(path) end)
    local boxes = parse(text)
    assert.is_true(#boxes > 8)
    assert.is_nil(text:find('<script', 1, true))
    for _, a in ipairs(boxes) do -- beside each other
      for _, b in ipairs(boxes) do
        assert.is_true(a == b or a.y ~= b.y or a.x + a.w <= b.x + 0.02 or b.x + b.w <= a.x + 0.02)
      end
    end
    local bottom = boxes[1]
    for i = 2, #boxes do
      local box, below = boxes[i], nil
      for _, other in ipairs(boxes) do
        if other.y == box.y + 18 and other.x <= box.x + 0.02
            and other.x + other.w >= box.x + box.w - 0.02 then
          below = other
        end
      end
      assert.is_truthy(below)
    end
    assert.near(1180, bottom.w, 0.01)
    assert.matches('linear: [%d.]+ .-s, [%d.]+ %%, 1 call', text)
  end)

  it('has boxes as wide as the own times in them, whatever a call took in all', function()
    local function node(name, ns, own, within)
      return { name = name, kind = 'op', calls = 1, ns = ns, self_ns = own, within = within or {} }
    end
    local text = {}
    require('ridge.profile.flame').draw({ ns = 100, tree = node('all', 7, 10,
      { node('a', 999, 30), node('b', 1, 60) }) }, function(part) text[#text + 1] = part end)
    local boxes = parse(table.concat(text))
    assert.equal(3, #boxes)
    assert.near(1180, boxes[1].w, 0.01)
    assert.near(354, boxes[2].w, 0.01) -- a, the longer one, stands first
    assert.near(708, boxes[3].w, 0.01)
    assert.near(boxes[2].x + 354, boxes[3].x, 0.01)
  end)

  it('cuts what does not fit into its box, whole characters', function()
    local function drawn(name, share)
      local text = {}
      require('ridge.profile.flame').draw({ ns = 100, tree = { name = 'all', kind = 'all',
        calls = 1, ns = 100, self_ns = 100 - share, within = { { name = name, kind = 'op',
          calls = 1, ns = share, self_ns = share, within = {} } } } },
        function(part) text[#text + 1] = part end)
      local last
      for label in table.concat(text):gmatch '<text [^>]*>([^<]*)</text></g>' do last = label end
      return last
    end
    -- 118 pixels less 6, of letters of 6.6: 16 of them
    assert.equal(('x'):rep(16), drawn(('x'):rep(16), 10))
    assert.equal(('x'):rep(14) .. '..', drawn(('x'):rep(17), 10))
    assert.equal(('é'):rep(14) .. '..', drawn(('é'):rep(40), 10))
    assert.equal('all', drawn('abc', 1)) -- a box with less than three letters has none
  end)

  it('has colours that SVG 1.1 knows, by what a box is', function()
    local function drawn(name, kind)
      local text = {}
      require('ridge.profile.flame').draw({ ns = 1, tree = { name = name, kind = kind, calls = 1,
        ns = 1, self_ns = 1, within = {} } }, function(part) text[#text + 1] = part end)
      return table.concat(text):match '<rect x=[^>]-fill="([^"]*)"'
    end
    assert.equal('#c7c7c7', drawn('', 'all')) -- hsl(0,0%,78%)
    assert.equal('#77a5c5', drawn('', 'module')) -- hsl(205,40%,62%)
    assert.equal('#efa47b', drawn('a', 'op')) -- hsl(21,78%,71%)
  end)

  it('tells own times of what has something in it', function()
    local text = {}
    require('ridge.profile.flame').draw({ ns = 100, tree = { name = 'all', kind = 'all', calls = 1,
      ns = 100, self_ns = 25, within = { { name = 'a', kind = 'op', calls = 2, ns = 75,
        self_ns = 75, within = {} } } } }, function(part) text[#text + 1] = part end)
    text = table.concat(text):gsub('\226\128\175', ' ')
    local told = {}
    for title in text:gmatch '<title>(.-)</title>' do told[#told + 1] = title end
    assert.same({ 'all: 100 ns, 100.00 %, 25 ns of its own', 'a: 75 ns, 75.00 %, 2 calls' }, told)
  end)

  it('of nothing is one', function()
    parse(file_of(function(path) ridge.profile(function() end):flame(path) end))
  end)
end)

describe('names', function()
  local escape = require 'ridge.profile.escape'

  it('become UTF-8, and JSON that says the same', function()
    assert.equal('é€😀', escape.utf8 'é€😀')
    assert.equal('a\239\191\189b', escape.utf8 'a\255b')
    assert.equal('\239\191\189\239\191\189', escape.utf8 '\192\128') -- too long for what it is
    assert.equal('\239\191\189', escape.utf8 '\195') -- cut
    for _, half in ipairs { '\237\160\128' } do
      assert.is_nil(escape.utf8(half):find(half, 1, true))
    end
    assert.equal(escape.utf8(NASTY), canonical.decode(escape.json(NASTY)))
  end)

  -- Every first byte of several with every second one, against what their numbers may be.
  it('are UTF-8 where their numbers are characters, and nowhere else', function()
    local FIRST = { { 0xc0, 0x80, 0x7ff }, { 0xe0, 0x800, 0xffff }, { 0xf0, 0x10000, 0x10ffff } }
    for n, of in ipairs(FIRST) do
      for a = of[1], n == 3 and 0xff or FIRST[n + 1][1] - 1 do
        for b = 0, 255 do
          local text = string.char(a, b) .. ('\128'):rep(n - 1)
          local number = ((a - of[1]) * 64 + b - 0x80) * 64 ^ (n - 1)
          local good = b >= 0x80 and b <= 0xbf and number >= of[2] and number <= of[3]
            and (number < 0xd800 or number > 0xdfff)
          assert.equal(good, escape.utf8(text) == text, ('%02x %02x'):format(a, b))
        end
      end
    end
  end)

  it('have nothing in XML that it knows no character for', function()
    assert.equal('a b c', escape.xml 'a\239\191\190b\239\191\191c')
    assert.equal('\239\191\189', escape.xml '\239\191\189') -- what is before them is one
  end)

  it('hide no tag', function()
    assert.equal('&lt;b&gt; &amp; &quot;&#39;', escape.xml '<b>\0&\1"\'' :gsub('  ', ' '))
  end)
end)

describe('a picture', function()
  it('is a PNG with what ran when', function()
    local p = training()
    local path = os.tmpname() .. '.png'
    assert.matches("^figure 'What ran when', %d+ x %d+: .*\n:show%(%) draws it here",
      tostring(p:plot(path)))
    local file = assert(io.open(path, 'rb'))
    assert.equal('\137PNG\r\n', file:read(6))
    file:close()
    os.remove(path)
    local x = ridge.ones(8)
    assert.equal('figure', type(ridge.timeline(function() x:exp() end):plot().png) == 'function'
      and 'figure')
    for _, watch in ipairs { ridge.profile, ridge.timeline } do
      local ok, err = pcall(function() watch(function() end):plot() end)
      assert.is_false(ok)
      assert.matches('no call was made', tostring(err))
    end
  end)

  it('says of what nobody noted that it was not recorded, and does not call it idle', function()
    local x = ridge.randn(64, 64)
    local p = ridge.profile(function() x:matmul(x) end, { wait = 3, active = 2, repeats = 3,
      num_steps = 15, lines = false })
    local w = p.windows
    assert.equal(3, #w)
    local spans, unrecorded = require('ridge.profile.trace').spans(p)
    assert.near((w[2].from - w[1].to + w[3].from - w[2].to) / 1e9, unrecorded, 1e-12)
    assert.equal(6, #spans)
    local figure = p:plot()
    assert.matches(' that were recorded%.$', figure.finding)
    assert.matches('For .- between them nothing was recorded', table.concat(figure.caption, ' '))
    p = ridge.profile(function() x:matmul(x) end, { num_steps = 5, lines = false })
    figure = p:plot()
    assert.not_matches('recorded', figure.finding .. table.concat(figure.caption, ' '))
    -- what was not recorded is no part of the time that a stream was busy in
    local function call(from, to)
      return { name = 'a', device = 'cpu', stream = 0, begin_s = from, end_s = to }
    end
    figure = require('ridge.plot').draw('timeline', { call(0, 1), call(4, 5) }, { unrecorded = 2 })
    assert.matches('busy for 2.s of 3.s that were recorded', (figure.finding:gsub('\226\128\175',
      ' ')))
  end)
end)

describe('a roofline', function()
  local x = ridge.randn(64, 64)
  local function profiled()
    return ridge.profile(function() for _ = 1, 3 do x:matmul(x) x:exp() end end,
      { roof = 'none', lines = false })
  end

  it('has each kind of call where its counts and its time put it', function()
    local p = profiled()
    local figure, by = p:roofline(), {}
    for _, row in ipairs(figure.rows) do by[row.operation] = row end
    for _, entry in ipairs(p.calls) do
      local row = by[entry.op]
      assert.equal(3, row.calls)
      assert.equal(entry.self_ns / 3, row.call)
      assert.equal(entry.flops / 3, row.call_flops)
      assert.equal(entry.bytes / 3, row.call_bytes)
    end
    assert.equal(2 * 64 ^ 3, by.matmul.call_flops)
    assert.equal(2, #figure.rows)
    assert.is_nil(figure.finding)
    assert.matches('Points are rates from the mean time of calls with the same shapes',
      table.concat(figure.caption, ' '))
  end)

  it('says what has no point in it', function()
    local caption = table.concat(profiled():roofline().caption, ' ')
    assert.matches('Nothing is missing', caption)
    local p = ridge.profile(function()
      for _ = 1, 3 do ridge.ones(64, 64):matmul(x):clone() end
    end, { roof = 'none', lines = false })
    caption = table.concat(p:roofline().caption, ' ')
    assert.not_matches('Nothing is missing', caption)
    local ns, all = 0, 0
    for _, entry in ipairs(p.calls) do
      ns = ns + (entry.op ~= 'matmul' and entry.self_ns or 0)
      all = all + entry.self_ns
    end
    local told = ('or elsewhere: copy, fill (%.0f %% of'):format(100 * ns / all)
    assert.matches(told, caption, 1, true)
    local roof = require 'ridge.profile.roof'
    local function call(device)
      return { op = 'exp', device = device, flops = 1, bytes = 1, self_ns = 1, calls = 1 }
    end
    assert.matches('exp on cuda:0 %(50 %%', roof.rows(nil, { call 'cpu', call 'cuda:0' }).left_out)
  end)

  it('has the ceilings of this machine, and says what none of them allows', function()
    local p = profiled()
    local function roofs(arithmetic)
      return { list = { { name = 'fma.f32', value = arithmetic },
        { name = 'bw.l1', value = 1e15 } } }
    end
    p.roof_known = roofs(1e6)
    assert.matches('^2 points lie above every roof', p:roofline().finding)
    p.roof_known = roofs(1e15)
    local path = os.tmpname() .. '.png'
    assert.is_nil(p:roofline(path).finding)
    local file = assert(io.open(path, 'rb'))
    assert.equal('\137PNG\r\n', file:read(6))
    file:close()
    os.remove(path)
  end)

  it('of nothing that is counted is none', function()
    local ok, err = pcall(function() ridge.profile(function() end):roofline() end)
    assert.is_false(ok)
    assert.matches('output_spec.lua:%d+: profile:roofline: no call on the CPU has operations',
      tostring(err))
  end)
end)

describe('a full disk', function()
  it('is said, and the profile is there still', function()
    local p = training()
    for _, name in ipairs { 'trace', 'flame', 'folded', 'speedscope' } do
      local ok, err = pcall(p[name], p, '/dev/full')
      assert.is_false(ok, name)
      assert.matches('/dev/full cannot be written: No space left on device', tostring(err))
    end
    checked(file_of(function(path) p:trace(path) end))
    local ok, err = pcall(p.trace, p, '/nowhere/x.json')
    assert.is_false(ok)
    assert.matches('/nowhere/x.json cannot be written', tostring(err))
    ok, err = pcall(p.trace, p)
    assert.is_false(ok)
    assert.matches('a path is expected', tostring(err))
  end)

  it('leaves the file that was there', function()
    local path = os.tmpname()
    local file = assert(io.open(path, 'w'))
    file:write 'before'
    file:close()
    local p = training()
    p.copy = nil -- what goes wrong half-way
    assert.is_false(pcall(p.trace, p, path))
    file = assert(io.open(path))
    assert.equal('before', file:read '*a')
    file:close()
    os.remove(path)
  end)
end)
