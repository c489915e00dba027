-- SPDX-License-Identifier: MIT
-- Questions to a sweep, files in every form, merging: over sweeps measured by a made-up laboratory.

local cheap = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local format = require 'ridge.store.format'
local merge = require 'ridge.store.merge'
local query = require 'ridge.store.query'
local ridge = require 'ridge'
local store = require 'ridge.store'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e.message
end

local function measure(path, opt)
  local sw = ridge.sweep 'asked' {
    space = { width = { 1, 2, 4 }, kind = { 'a', 'b' } },
    args = opt and opt.args,
    measure = function(p, _, m)
      if p.width == 4 and p.kind == 'b' and not (opt and opt.heal) then error('no luck') end
      m:time('fwd', function() return p.width * (p.kind == 'a' and 100 or 300) end)
      m:metric('score', p.width, { better = 'higher' })
    end,
  }
  sw:run { db = path, calibrate = false, progress = 'off', lab = cheap.new(),
           shard = opt and opt.shard }
end

describe('a question', function()
  local folder, path, st

  setup(function()
    folder = folders.new()
    path = folder .. '/q.db'
    measure(path)
    st = store.open(path, 'read')
  end)
  teardown(function()
    st:close()
    folders.remove(folder)
  end)

  it('has the usual columns when none are named', function()
    local found = query.ask(st, 'asked', { sort = 'fwd' })
    assert.same({ 'kind', 'width', 'fwd', 'score', 'grade' }, found.titles)
    assert.equal(6, #found.lines)
    assert.same({ 'a', 1, 100, 1, 'C' }, found.lines[1])
    assert.is_nil(found.lines[6][3]) -- what failed has no time, and comes last
  end)

  it('filters, groups, aggregates, sorts and ends', function()
    local found = query.ask(st, 'asked', { columns = 'kind, count(fwd), n := count(), median(fwd),'
      .. ' max(fwd), mean(score)', where = 'width >= 2', group = 'kind', sort = '-4' })
    assert.same({ 'kind', 'count(fwd)', 'n', 'median(fwd)', 'max(fwd)', 'mean(score)' },
      found.titles)
    assert.same({ 'b', 1, 2, 600, 600, 2 }, found.lines[1])
    assert.same({ 'a', 2, 2, 300, 400, 3 }, found.lines[2])
    assert.equal(2, #query.ask(st, 'asked', { limit = 2 }).lines)
    assert.same({ { 200 } }, query.ask(st, 'asked', { columns = 'width * 100',
      where = "kind = 'b' and width = 2" }).lines)
  end)

  it('names what is not there', function()
    assert.matches("did you mean 'width'", failure(query.ask, st, 'asked', { columns = 'widht' }))
    assert.matches("did you mean 'asked'", failure(query.ask, st, 'aksed', {}))
    assert.matches('no column', failure(query.ask, st, 'asked', { sort = '9' }))
    assert.matches('needs a column', failure(query.ask, st, 'asked', { columns = 'median()' }))
  end)

  it('comes in every form', function()
    local found = { titles = { 'k', 'text' }, lines = { { 0.1, 'a,"b"' }, { nil, 'c|d' } } }
    assert.equal('k,text\n0.1,"a,""b"""\n,c|d\n', format.text(found, 'csv'))
    assert.equal('  k  text\n0.1  a,"b"\n     c|d\n', format.text(found, 'table'))
    assert.matches('c\\|d', format.text(found, 'md'))
    assert.equal('{"k":0.1,"text":"a,\\"b\\""}\n{"text":"c|d"}\n', format.text(found, 'jsonl'))
    assert.matches('"version":1', format.text(found, 'json'))
  end)

  it('is a call of ridge too', function()
    local rows = ridge.query('asked', { columns = 'kind, n := count()', group = 'kind',
                                        sort = 'kind', db = path })
    assert.same({ { kind = 'a', n = 3 }, { kind = 'b', n = 3 } }, rows)
    assert.same({ { n = 6 } }, ridge.sql('SELECT count(*) AS n FROM "asked"', { db = path }))
    local sweeps = ridge.sweeps { db = path }
    assert.same({ 'asked', 5, 6, '1 error' },
      { sweeps[1].sweep, sweeps[1].done, sweeps[1].points, sweeps[1].failed })
    local all = folder .. '/merged.db'
    assert.equal(6, ridge.merge(all, path)[1].trial)
    assert.equal(0, ridge.merge(all, path)[1].trial)
    assert.matches("'where'", failure(ridge.query, 'asked', { wher = 'x' }))
    assert.matches('columns are given twice', failure(ridge.query, 'asked', 'kind',
      { columns = 'n' }))
  end)

  it('may be any SELECT, and changes nothing', function()
    local found = query.sql(st, 'SELECT kind, max(fwd) AS t FROM "asked" GROUP BY kind')
    assert.same({ 'kind', 't' }, found.titles)
    assert.same({ 'b', 600 }, found.lines[2])
    assert.matches('read%-only', failure(query.sql, st, 'DELETE FROM trial'))
  end)
end)

describe('what a question cannot say', function()
  local folder, st

  setup(function()
    folder = folders.new()
    measure(folder .. '/q.db')
    st = store.open(folder .. '/q.db', 'read')
  end)
  teardown(function()
    st:close()
    folders.remove(folder)
  end)

  it('is a sentence: aggregates inside something, and too many values', function()
    for columns, says in pairs {
        ['median(median(fwd))'] = 'median is of a group', ['median(fwd) + 1'] = 'is of a group',
        ['max(width, max(width))'] = 'max is of a group', ['count(width, 1)'] = 'count takes one',
        ['abs(width, 1)'] = 'abs takes one value, not 2', ['log2()'] = 'log2 takes one',
        ['sum(kind)'] = 'is text; only count', ['median(kind)'] = 'is text',
        ['a := 1, a := 2'] = 'two columns are called a' } do
      assert.matches(says, failure(query.ask, st, 'asked', { columns = columns }), columns)
    end
    for _, where in ipairs { 'max(width) > 3', 'min(width) = 1', 'abs() = 1' } do
      assert.matches('takes', failure(query.ask, st, 'asked', { where = where }), where)
    end
    local text = failure(query.ask, st, 'asked', { columns = 'p50(fwd)' })
    assert.equal(1, select(2, text:gsub('max', '')))
  end)

  it('is text in the place of a number', function()
    for where, says in pairs { ['kind > 3'] = 'kind is text and 3 is a number',
        ["width = '2'"] = "width is a number and '2' is text", ['kind'] = 'no condition',
        ["state = 1"] = 'state is text', ['fwd = "x" or width = kind'] = 'is text' } do
      assert.matches(says, failure(query.ask, st, 'asked', { where = where }), where)
    end
    assert.matches("'%*' is of numbers", failure(query.ask, st, 'asked',
      { columns = 'kind * 2' }))
    assert.same({ { 2 } }, query.ask(st, 'asked', { columns = 'n := count()',
      where = "kind >= 'b' and width < 4" }).lines)
  end)

  it('is a value that only one row of a group has', function()
    local text = failure(query.ask, st, 'asked', { columns = 'width, median(fwd)' })
    assert.matches('width has several values in a group', text)
    assert.matches('several values', failure(query.ask, st, 'asked', { group = 'kind' }))
    assert.same({ { 4, 400 } }, query.ask(st, 'asked', { columns = 'width, max(fwd)',
      where = 'width = 4' }).lines)
  end)

  it('is a sum of nothing; and infinity is no nan', function()
    assert.same({ { 0 } }, query.ask(st, 'asked', { columns = 'count(fwd), sum(fwd)',
      where = "width = 4 and kind = 'b'" }).lines)
    assert.equal(2, query.aggregate('median', { 1, 2, math.huge }))
    assert.equal(math.huge, query.aggregate('median', { 1, math.huge, math.huge }))
    assert.equal(math.huge, query.aggregate('median', { math.huge, math.huge }))
  end)

  it('lies between two numbers where the share of a quantile does', function()
    local twenty = {}
    for i = 1, 20 do twenty[i] = 21 - i end
    -- by hand: between the numbers at (n - 1) q, counted from 0
    for name, wanted in pairs { p25 = 5.75, median = 10.5, p75 = 15.25, p95 = 19.05, p99 = 19.81,
        p1 = 1.19 } do
      assert.near(wanted, query.aggregate(name, twenty), 1e-12, name)
    end
    assert.equal(7, query.aggregate('p99', { 7 }))
  end)

  it('knows that less is better of every time, cold ones too', function()
    local known = require('ridge.store.results').directions(st, query.sweep(st, 'asked').id)
    for _, name in ipairs { 'fwd', 'fwd_first', 'fwd_cold', 'fwd_p95', 'fwd_lo', 'fwd_mean' } do
      assert.equal(-1, known[name], name)
    end
    assert.equal(1, known.score)
  end)

  it('has nan behind all numbers, whichever way it is sorted', function()
    for _, sort in ipairs { '1', '-1' } do
      local lines = query.ask(st, 'asked', { columns = '0 / (width - 2)', sort = sort }).lines
      for i = 1, 4 do assert.equal(0, lines[i][1], sort) end
      for i = 5, 6 do assert.is_true(lines[i][1] ~= lines[i][1]) end
    end
  end)

  it('tells columns of one name apart, as SQLite gives them', function()
    local found = query.sql(st, "SELECT 1 AS a, 2 AS a, 3 AS a, 4 AS 'a:1'")
    assert.same({ 'a', 'a:1', 'a:2', 'a:1:1' }, found.titles)
    assert.same({ 1, 2, 3, 4 }, found.lines[1])
  end)
end)

it('groups by every digit, and shows what is called like the small print of a phase', function()
  local folder = folders.new()
  local sw = ridge.sweep 'close' {
    space = { k_max = { 0.1, 0.1 + 2 ^ -56 }, text = { 'a', 'b' } },
    measure = function(p, _, m)
      m:time('fwd', function() return 100 end)
      m:metric('own_bytes', p.k_max)
    end,
  }
  sw:run { db = folder .. '/c.db', calibrate = false, progress = 'off', lab = cheap.new() }
  local st = store.open(folder .. '/c.db', 'read')
  assert.equal(2, #query.ask(st, 'close', { columns = 'count()', group = 'k_max' }).lines)
  assert.same({ 'k_max', 'text', 'fwd', 'own_bytes', 'grade' }, query.ask(st, 'close', {}).titles)
  st:close()
  folders.remove(folder)
end)

describe('a number in a file', function()
  local NUMBERS = { 0.1 + 0.2, 1 / 3, -2 / 3e7, 5e-324, 1.7976931348623157e308, 2 ^ 53, 2 ^ 53 - 1,
    123456789.12345678, 1e15 + 0.3, -0.1, 1e-7 }

  it('has all its digits in comma-separated values: it reads back as it was', function()
    local lines = {}
    for i, v in ipairs(NUMBERS) do lines[i] = { i, v } end
    local i = 0
    for line in format.text({ titles = { 'i', 'v' }, lines = lines }, 'csv'):gmatch '[^\n]+' do
      if i > 0 then assert.equal(NUMBERS[i], tonumber(line:match ',(.*)'), line) end
      i = i + 1
    end
    assert.equal(#NUMBERS + 1, i)
  end)

  it('comes out of a sweep as it was measured, through ridge export', function()
    local folder = folders.new()
    local list = {}
    for i in ipairs(NUMBERS) do list[i] = i end
    local sw = ridge.sweep 'digits' { space = { i = list }, measure = function(p, _, m)
      m:metric('v', NUMBERS[p.i])
      m:time('fwd', function() return 1e3 / 3 * p.i end)
    end }
    sw:run { db = folder .. '/d.db', calibrate = false, progress = 'off', lab = cheap.new() }
    local text = folders.run(('./ridge export digits --db %s/d.db --as csv'):format(folder))
    local titles, n = {}, 0
    for line in text:gmatch '[^\n]+' do
      local row, k = {}, 0
      for field in (line .. ','):gmatch '([^,]*),' do
        k = k + 1
        if n == 0 then titles[k] = field else row[titles[k]] = field end
      end
      if n > 0 then
        local at = tonumber(row.i)
        assert.equal(NUMBERS[at], tonumber(row.v), line)
        assert.equal(1e3 / 3 * at, tonumber(row.fwd), line)
      end
      n = n + 1
    end
    assert.equal(#NUMBERS + 1, n, text)
    folders.remove(folder)
  end)
end)

describe('a form', function()
  local text = format.text

  it('holds neither its rows nor its text in memory', function()
    for form, passes in pairs { csv = 1, jsonl = 1, json = 1, md = 2, table = 2 } do
      local begun, made, most, got, n = 0, 0, 0, 0, 0
      local function each()
        begun = begun + 1
        local i = 0
        return function()
          i = i + 1
          if i > 20000 then return nil end
          made = made + 1
          return { i, ('text of row %d'):format(i) }
        end
      end
      local last
      format.write({ titles = { 'i', 'text' }, each = each }, form, function(piece)
        n, most, got, last = n + 1, math.max(most, #piece), got + #piece, piece
      end)
      local lines = {}
      for i = 1, 20000 do lines[i] = { i, ('text of row %d'):format(i) } end
      local whole = text({ titles = { 'i', 'text' }, lines = lines }, form)
      assert.same({ passes, passes * 20000, #whole }, { begun, made, got }, form)
      assert.is_true(n > 5 and most < 70000, form)
      assert.equal(last, whole:sub(-#last))
    end
    assert.equal('', text({ titles = { 'i' }, lines = {} }, 'jsonl'))
    assert.equal('{"format":"ridge-rows","rows":[],"version":1}\n',
      text({ titles = { 'i' }, lines = {} }, 'json'))
  end)

  it('has numbers as they are: whole ones whole, others in six digits, or all in files', function()
    local found = { titles = { 'v' }, lines = { { 1234567 }, { 1234.5678 }, { -0.1 } } }
    assert.equal('      v\n1234567\n1234.57\n   -0.1\n', text(found, 'table'))
    assert.equal('v\n1234567\n1234.5678\n-0.1\n', text(found, 'csv'))
    assert.equal('| v |\n| ---: |\n| 1234567 |\n| 1234.57 |\n| -0.1 |\n', text(found, 'md'))
  end)

  it('quotes in CSV what would end a field or a line; JSON has texts for infinities', function()
    local function field(v) return text({ titles = { 'v' }, lines = { { v } } }, 'csv') end
    for _, v in ipairs { 'a,b', 'a\rb', 'a\nb', 'a"b' } do
      assert.equal('v\n"' .. v:gsub('"', '""') .. '"\n', field(v))
    end
    assert.equal('v\na b\n', field 'a b')
    local lines = text({ titles = { 'v' }, lines = { { 1 / 0 }, { -1 / 0 }, { 2 } } }, 'jsonl')
    assert.equal('{"v":"inf"}\n{"v":"-inf"}\n{"v":2}\n', lines)
  end)
end)

describe('merging', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function into(...)
    local st = store.open(folder .. '/all.db', 'write')
    local last
    for _, name in ipairs { ... } do last = merge.take(st, folder .. '/' .. name) end
    return st, last
  end

  local function points(st)
    return st.db:value "SELECT count(*) FROM trial WHERE state = 'ok'",
      st.db:value 'SELECT count(*) FROM trial', st.db:value 'SELECT count(*) FROM attempt'
  end

  it('unites shards, and does nothing the second time', function()
    for i = 1, 4 do
      measure(('%s/%d.db'):format(folder, i), { shard = i .. '/4', heal = true })
    end
    local st = into('1.db', '2.db', '3.db', '4.db')
    assert.same({ 6, 6, 6 }, { points(st) })
    assert.equal('done', st.db:value 'SELECT state FROM sweep')
    assert.equal('ok', st.db:value 'PRAGMA integrity_check')
    assert.is_nil(st.db:value 'PRAGMA foreign_key_check')
    st:close()
    local again, counts = into('3.db')
    for _, c in ipairs(counts) do assert.equal(0, c.n, c.name) end
    assert.same({ 6, 6, 6 }, { points(again) })
    -- times and samples came along
    local found = query.ask(again, 'asked', { columns = 'fwd', where = 'width = 4', sort = '1' })
    assert.same({ { 400 }, { 1200 } }, found.lines)
    assert.equal(6, again.db:value 'SELECT count(*) FROM samples')
    again:close()
  end)

  it('keeps every try of a point that two files have', function()
    measure(folder .. '/a.db')
    measure(folder .. '/b.db')
    local st = into('a.db', 'b.db')
    local ok, all, attempts = points(st)
    assert.same({ 5, 6 }, { ok, all })
    assert.is_true(attempts >= 12)
    assert.equal(attempts,
      st.db:value 'SELECT count(*) FROM (SELECT DISTINCT trial_id, n FROM attempt)')
    assert.equal(1, st.db:value 'SELECT count(*) FROM sweep')
    st:close()
  end)

  it('makes a point done that failed in one file and is done in another, in any order', function()
    measure(folder .. '/failed.db')
    measure(folder .. '/done.db', { heal = true })
    measure(folder .. '/again.db')
    for i, order in ipairs { { 'failed.db', 'done.db' }, { 'done.db', 'failed.db' },
        { 'failed.db', 'again.db', 'done.db' }, { 'failed.db', 'done.db', 'again.db' } } do
      local st = store.open(('%s/all%d.db'):format(folder, i), 'write')
      for _, name in ipairs(order) do merge.take(st, folder .. '/' .. name) end
      assert.same({ { state = 'ok', n = 6 } },
        st.db:query 'SELECT state, count(*) AS n FROM trial GROUP BY state')
      local found = query.ask(st, 'asked', { columns = 'fwd', where = "width = 4 and kind = 'b'" })
      assert.same({ { 1200 } }, found.lines)
      st:close()
    end
    -- and failed in both is failed
    local st = into('failed.db', 'again.db')
    assert.equal(1, st.db:value "SELECT count(*) FROM trial WHERE state = 'error'")
    st:close()
  end)

  it('gives another sweep of the same name the next number', function()
    measure(folder .. '/a.db')
    measure(folder .. '/b.db', { args = { other = 1 } })
    local st = into('a.db', 'b.db')
    local names = st.db:query 'SELECT name FROM sweep ORDER BY id'
    assert.same({ { name = 'asked' }, { name = 'asked-2' } }, names)
    assert.equal(6, #query.ask(st, 'asked-2', {}).lines)
    st:close()
  end)

  it('refuses what is no database, and itself', function()
    measure(folder .. '/a.db')
    local file = io.open(folder .. '/junk.db', 'wb')
    file:write(('x'):rep(5000))
    file:close()
    local st = store.open(folder .. '/all.db', 'write')
    assert.matches('not a results database', failure(merge.take, st, folder .. '/junk.db'))
    assert.matches('merged into', failure(merge.take, st, folder .. '/all.db'))
    merge.take(st, folder .. '/a.db') -- and goes on afterwards
    st:close()
  end)
end)
