-- SPDX-License-Identifier: MIT
-- Where and when points were measured, as columns; several sweeps in one question; two machines
-- held against each other; notes, and lists of sweeps.
local folders = dofile 'tests/lua/store/folder.lua'
local clock = require 'ridge.store.clock'
local compare = require 'ridge.sweep.compare'
local notes = require 'ridge.store.notes'
local picture = require 'ridge.sweep.picture'
local query = require 'ridge.store.query'
local ridge = require 'ridge'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'
local sweeps = require 'ridge.store.sweeps'

local folder, a, b, both
setup(function()
  folder = folders.new()
  a, b, both = folder .. '/a.db', folder .. '/b.db', folder .. '/both.db'
  dofile('tests/lua/store/two_machines.lua').make(a, b)
  ridge.merge(both, a, b)
end)
teardown(function() folders.remove(folder) end)

local function raised(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(text, err.message, 1, true)
end

describe('columns that say where', function()
  it('are there for every sweep, and in no list that nobody asked for', function()
    local rows = ridge.query('widths', 'machine, cpu, commit, host, date, sweep, trial',
      { db = a, sort = 'trial' })
    assert.equal(6, #rows)
    local first = rows[1]
    assert.same({ 'Test CPU 9000', '4f2a91c', 'bench', '2026-01-02', 'widths' },
      { first.cpu, first.commit, first.host, first.date, first.sweep })
    assert.matches('^m%x%x%x%x%x%x%x$', first.machine)
    assert.is_nil(ridge.query('widths', { db = a, limit = 1 })[1].machine)
    store.with(a, 'read', function(st)
      for _, title in ipairs(query.all(st, 'widths').titles) do
        assert.not_equal('machine', title)
      end
    end)
  end)

  it('filter and group the points of several sweeps', function()
    local rows = ridge.query('widths,widths-2', 'machine, n := count(), t := median(fwd)',
      { db = both, where = 'kind = "linear"', group = 'machine', sort = 't' })
    assert.equal(2, #rows)
    assert.equal('mb0b1b2b', rows[1].machine)
    assert.equal(3, rows[1].n)
    assert.equal(rows[2].t, 2 * rows[1].t)
    assert.equal(3, #ridge.query('widths*', 'width', { db = both,
      where = 'host = "bench" and kind = "linear"' }))
    -- what only one of them has is absent in the others
    local mixed = ridge.query('widths, old', 'sweep, k, width', { db = both, sort = 'sweep' })
    assert.equal(10, #mixed)
    assert.is_nil(mixed[1].width)
    assert.equal(6, #ridge.query('widths, old', 'width', { db = both, where = 'width > 0' }))
    assert.equal(6, #ridge.query('widths,widths', 'width', { db = both }))
    raised('no sweep of ' .. both .. ' is like x*', ridge.query, 'x*', { db = both })
    raised('the sweeps widths,old has no kk', ridge.query, 'widths,old', 'kk', { db = both })
  end)

  it('give way to a parameter or metric of that name', function()
    local path = folder .. '/own.db'
    dofile('tests/lua/cli/fixed_rows.lua').make(path)
    local db = sqlite.open(path, 'write')
    db:exec([[UPDATE metric SET name = 'host' WHERE name = 'loss']], 'a metric called host')
    db:close()
    local rows = ridge.query('widths', { db = path, limit = 1 })
    assert.equal(0.5, rows[1].host)
    assert.equal('Test CPU 9000', ridge.query('widths', 'cpu', { db = path })[1].cpu)
  end)

  it('are panels and sides of pictures', function()
    store.with(both, 'read', function(st)
      local list = query.several(st, 'widths,widths-2')
      local one = table.remove(list, 1)
      local figure = picture.figure('ratio', st, one, { x = 'width', y = 'kind', z = 'fwd',
        a = 'cpu=Test CPU 9000', b = 'host=other<host>' }, list)
      assert.matches('host=other<host> wins in 4 cells', figure.finding, 1, true)
      assert.is_nil(figure.caption[1]:find 'within each pass') -- they were no passes together
      local faceted = picture.figure('map', st, one, { x = 'width', y = 'batch', z = 'fwd',
        facet = 'machine' }, list)
      local seen = {}
      for _, row in ipairs(faceted.rows) do seen[row.machine] = true end
      assert.is_true(seen.mb0b1b2b)
      local plain = picture.figure('slices', st, one, { x = 'width', y = 'fwd' })
      assert.is_nil(plain.rows[1].machine)
    end)
  end)
end)

describe('two machines', function()
  it('are compared as machines, with all in which they differ', function()
    local list = compare.databases(a, b, { sweep = 'widths' })
    local n = 0
    for _, found in ipairs(list) do
      assert.equal('of machines', found.design)
      assert.equal(0.5, found.ratio)
      assert.same({ a = 'Test CPU 9000', b = 'Other CPU 7', differ = {} }, found.machines)
      if found.verdict == 'faster' then
        n = n + 1
        assert.is_true(found.ci_lo < 0.5 and found.ci_hi > 0.5 and found.ci_hi < 1)
      else
        assert.truthy(found.reason:find 'grade D' or found.reason:find 'no interval')
      end
    end
    assert.equal(5, n)
    local db = sqlite.open(b, 'write')
    db:exec([[UPDATE env SET governor = 'powersave', vars = '{"threads":9}';
      UPDATE build SET git = 'ffff']], 'another state')
    db:close()
    local found = compare.databases(a, b, { sweep = 'widths' })[1]
    assert.same({ 'governor', 'threads or variables', 'builds' },
      { unpack(found.machines.differ) })
    -- one machine at two times stays what it was
    local once = compare.sweeps({ db = a, name = 'old' }, { db = both, name = 'old' })[1]
    assert.equal('unpaired', once.design)
    assert.is_nil(once.machines)
  end)
end)

describe('notes', function()
  it('are kept, listed, merged and told', function()
    store.with(a, 'write', function(st)
      local sweep = query.sweep(st, 'old')
      assert.is_false(notes.add(st, sweep, ' \n'))
      assert.is_false(notes.add(st, sweep, ('x'):rep(10001)))
      assert.is_true(notes.add(st, sweep, 'new BIOS'))
      assert.is_true(notes.add(st, sweep, "it's 'quoted' \27[31m"))
      local list = notes.of(st, sweep)
      assert.equal(2, #list)
      assert.equal('new BIOS', list[1].text)
      assert.is_true(list[1].at < list[2].at and list[2].at <= clock.now_us() + 1e6)
      assert.same({}, notes.of(st, query.sweep(st, 'widths')))
    end)
    local into = folder .. '/merged.db'
    ridge.merge(into, a)
    ridge.merge(into, a)
    local rows = ridge.sweeps { db = into, like = 'old' }
    assert.equal("it's 'quoted' \27[31m", rows[1].note)
    assert.is_nil(tostring(rows):find '\27')
    store.with(into, 'read', function(st)
      assert.equal(2, #notes.of(st, query.sweep(st, 'old')))
    end)
  end)
end)

describe('the list of sweeps', function()
  local function names(opt)
    opt.db = both
    local out = {}
    for i, row in ipairs(ridge.sweeps(opt)) do out[i] = row.sweep end
    table.sort(out)
    return table.concat(out, ' ')
  end

  it('is of those whose name is like that', function()
    assert.equal('widths widths-2', names { like = 'IDT' })
    assert.equal('widths', names { like = 'w*s' })
    assert.equal('widths widths-2', names { like = 'widths*' }) -- nothing, too
    assert.equal('old-2', names { like = 'old-?' })
    assert.equal('', names { like = 'w.dths' })
    assert.equal('', names { like = '%a' })
  end)

  it('says what is left by how fast the last points went', function()
    local path = folder .. '/left.db'
    dofile('tests/lua/report/points.lua').make(path, 200)
    local st = store.open(path, 'write')
    -- ten seconds a point, then one: 64 of these ended last; 100 points of one pass are left
    st.db:exec([[UPDATE protocol SET json = '{"passes":1}';
      UPDATE attempt SET began = id * 10000000, ended = (id + 1) * 10000000 WHERE id <= 136;
      UPDATE attempt SET began = (1370 + id - 137) * 1000000, ended = (1371 + id - 137) * 1000000
        WHERE id > 136;
      UPDATE trial SET passes = 1;
      UPDATE trial SET state = 'pending', passes = 0 WHERE id > 100;
      UPDATE trial SET state = 'running' WHERE id = 101]], 'a sweep under way')
    local far = sweeps.how_far(st, { id = 1 })
    st:close()
    assert.same({ 100, 200, 1, '0:01:40' }, { far.done, far.points, far.running, far.left })
  end)

  it('is of those that ended not before a moment', function()
    local now = os.time { year = 2026, month = 1, day = 3, hour = 12 }
    local day = os.time { year = 2026, month = 1, day = 2, hour = 0 }
    assert.equal(day * 1e6, sweeps.moment('yesterday', now))
    assert.equal(day * 1e6, sweeps.moment('2026-01-02', now))
    assert.equal((day + 86400) * 1e6, sweeps.moment('today', now))
    assert.equal((now - 5400) * 1e6, sweeps.moment('90m', now))
    assert.equal((now - 14 * 86400) * 1e6, sweeps.moment('2w', now))
    for _, text in ipairs { '', 'soon', '2026-02-30', '2026-13-01', '7', 'd', '-1d' } do
      assert.is_nil(sweeps.moment(text, now), text)
    end
    assert.equal(10, #ridge.sweeps { db = both, since = '2026-01-01' })
    assert.equal(0, #ridge.sweeps { db = both, since = '2026-01-04', like = 'old' })
    raised("since: 'soon' is not like", ridge.sweeps, { db = both, since = 'soon' })
  end)

  it('says in what a sweep differs from the one of its name before it', function()
    assert.equal('another machine', ridge.sweeps { db = both, like = 'widths-2' }[1].differs)
    local db = sqlite.open(both, 'write')
    db:exec([[UPDATE sweep SET args = '{"lr":0.2}', seed = 7, space = '{"params":{"k":[1,2]}}'
      WHERE name = 'old-2']], 'another one')
    db:close()
    assert.equal('the arguments (lr: nothing -> 0.2), the space (k: nothing -> [1,2]), '
      .. 'the seed (1 -> 7), another machine',
      ridge.sweeps { db = both, like = 'old-2' }[1].differs)
    assert.is_nil(ridge.sweeps { db = a }[1].differs)
  end)
end)
