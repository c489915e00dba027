-- SPDX-License-Identifier: MIT
-- Points of one sweep that were measured on unlike machines.

local folders = dofile 'tests/lua/store/folder.lua'
local ridge = require 'ridge'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'
local unlike = require 'ridge.sweep.unlike'

-- A second machine: some points of the sweep `widths` are of it. other: what it differs in.
local OTHER = [[
  INSERT INTO machine SELECT 90, x'b0b1b2b3b4b5b6b7', 'node2', %s, sockets, cores, %s, isa, l1d, l2,
    l3, ram, os, kernel, virt, facts FROM machine WHERE id = 1;
  INSERT INTO device SELECT 90, 90, kind, 'u90', name, mem, facts FROM device WHERE id = 1;
  INSERT INTO env SELECT 90, x'e0', 90, build_id, 90, governor, turbo, smt, aslr, thp, cpuset,
    cpu_quota, vars FROM env WHERE id = 1;
  UPDATE attempt SET env_id = 90 WHERE id IN (SELECT t.best_attempt FROM trial t
    JOIN sweep s ON s.id = t.sweep_id WHERE s.name = 'widths' AND t.role = 'point'
    ORDER BY t.id LIMIT 3)]]

local folder, alike, apart
setup(function()
  folder = folders.new()
  alike, apart = folder .. '/alike.db', folder .. '/apart.db'
  for path, other in pairs { [alike] = { 'cpu', 'threads' },
      [apart] = { "'Other CPU 7'", '64' } } do
    dofile('tests/lua/cli/fixed_rows.lua').make(path)
    local db = sqlite.open(path, 'write')
    db:exec(OTHER:format(other[1], other[2]), 'another machine')
    db:close()
  end
end)
teardown(function() folders.remove(folder) end)

local function kinds(path, ...)
  local names = { ... }
  return store.with(path, 'read', function(st)
    local sweeps = {}
    for i, name in ipairs(names) do
      sweeps[i] = require('ridge.store.query').sweep(st, name)
    end
    return unlike.kinds(st, sweeps)
  end)
end

local function run(command)
  return folders.run('cd ' .. folder .. '; ' .. io.popen('pwd'):read '*l' .. '/ridge ' .. command
    .. ' 2>&1')
end

local WHAT = 'points of widths are of unlike machines: '

describe('points of unlike machines', function()
  it('are known; hosts of one kind are alike, and what failed counts with its machine', function()
    assert.same({}, kinds(alike, 'widths'))
    assert.same({}, kinds(apart, 'old')) -- the file has two, this sweep one
    local found = kinds(apart, 'widths')
    assert.equal(2, #found)
    local other = found[1].cpu == 'Other CPU 7' and found[1] or found[2]
    assert.same({ 'Other CPU 7', 64, 'mb0b1b2b', 1 },
      { other.cpu, other.threads, other.machine, other.machines })
    assert.matches('Other CPU 7, 64 threads (mb0b1b2b, ', unlike.text(found), 1, true)
    assert.matches(' and ', unlike.text(found), 1, true)
    local many = {}
    for i = 1, 5 do
      many[i] = { cpu = 'C' .. i, kind = 'cpu', threads = 1, machine = 'm' .. i, machines = i,
        points = 2 }
    end
    assert.equal('C1, 1 thread (m1, 2 points); C2, 1 thread (m2 and 1 more, 2 points); C3, '
      .. '1 thread (m3 and 2 more, 2 points) and 2 more', unlike.text(many))
  end)

  it('are points of a sweep by themselves: neither another device nor a finer look', function()
    local third = OTHER:format("'Third CPU'", '8'):match '^(.-)UPDATE attempt':gsub('90', '91')
      :gsub("x'b0", "x'c0"):gsub("x'e0'", "x'e1'") -- of which no point is
    local more = { -- what else is done to a file with a second machine, and how many kinds it has
      { { 'cpu', '64' }, '', 2 }, -- another number of threads alone
      { { "'Other CPU 7'", '64' }, [[UPDATE trial SET role = 'refine' WHERE best_attempt IN (
        SELECT id FROM attempt WHERE env_id = 90)]], 0 },
      { { 'cpu', 'threads' }, third
        .. "UPDATE device SET kind = 'cuda', name = 'A GPU' WHERE id = 90", 0 },
    }
    for i, each in ipairs(more) do
      local path = ('%s/more%d.db'):format(folder, i)
      dofile('tests/lua/cli/fixed_rows.lua').make(path)
      local db = sqlite.open(path, 'write')
      db:exec(OTHER:format(each[1][1], each[1][2]), 'another machine')
      if each[2] ~= '' then db:exec(each[2], 'more') end
      db:close()
      assert.equal(each[3], #kinds(path, 'widths'), i)
    end
  end)

  it('are told by the first of their names, and GPUs by theirs, too', function()
    local hardware = require 'ridge.sweep.hardware'
    local function row(id, machine, trial)
      return { key = 'k', machine_id = id, machine = machine, trial = trial, kind = 'cpu' }
    end
    local list = unlike.machines { row(2, 'mb', 1), row(1, 'ma', 2), row(3, 'mc', 2) }
    assert.same({ 1, 'ma', 3, 2 }, { #list, list[1].machine, list[1].machines, list[1].points })
    local function gpu(name) return hardware.key { kind = 'cuda', cpu = 'c', name = name } end
    assert.equal(gpu 'A', gpu 'A')
    assert.not_equal(gpu 'A', gpu 'B')
    local function cpu(name) return hardware.key { kind = 'cpu', cpu = 'c', name = name } end
    assert.equal(cpu 'A', cpu 'B') -- it is the machine's
  end)

  it('are refused by pictures unless asked', function()
    local text, status = run 'plot slices widths -x width -y fwd -o s.png --db apart.db'
    assert.equal(1, status)
    assert.matches('ridge plot: .*' .. WHAT .. '.*Other CPU 7, 64 threads .*mixed draws', text)
    for _, more in ipairs { '--mixed', '--facet machine', '--by cpu' } do
      text, status = run('plot slices widths -x width -y fwd -o s.png --db apart.db ' .. more)
      assert.equal(0, status, text)
      assert.equal(more == '--mixed', text:find(WHAT, 1, true) ~= nil)
    end
    store.with(apart, 'read', function(st)
      local drawn
      local draw = ridge.plot.draw
      ridge.plot.draw = function(kind, rows, opt) -- the whole name of what is in the picture
        drawn = opt.device
        return draw(kind, rows, opt)
      end
      local ok, e = pcall(require('ridge.sweep.picture').figure, 'slices', st,
        require('ridge.store.query').sweep(st, 'widths'), { x = 'width', y = 'fwd', mixed = true })
      ridge.plot.draw = draw
      assert.is_true(ok, tostring(e))
      for _, cpu in ipairs { 'Test CPU 9000', 'Other CPU 7' } do
        assert.is_truthy(drawn:find(cpu, 1, true), drawn)
      end
    end)
    assert.equal(0, select(2, run 'plot slices widths -x width -y fwd -o s.png --db alike.db'))
    for _, kind in ipairs { 'map', 'effects', 'pareto', 'roofline', 'winner', 'threads' } do
      text = run('plot ' .. kind .. ' widths -o s.png --db apart.db')
      assert.matches(WHAT, text, 1, true)
    end
    text = run 'plot samples widths -y fwd -o s.png --db apart.db'
    assert.is_nil(text:find('unlike', 1, true))
  end)

  it('have no map while a sweep is watched', function()
    local live = require 'ridge.sweep.live'
    for path, none in pairs { [apart] = true, [alike] = false } do
      store.with(path, 'read', function(st)
        local lines = live.map(st, require('ridge.store.query').sweep(st, 'widths'), { columns = 80,
          lines = 10, depth = 1 })
        assert.equal(none, lines[1] == 'no map: points are of unlike machines')
      end)
    end
  end)

  it('have no order unless asked, and none is best', function()
    for _, command in ipairs { 'best widths --for "min fwd"', 'top widths --by fwd' } do
      local text, status = run(command .. ' --db apart.db')
      assert.equal(1, status)
      assert.matches(WHAT, text, 1, true)
      text, status = run(command .. ' --mixed --db apart.db')
      assert.equal(0, status, text)
      assert.matches(WHAT .. '.*no anchor was measured on both', text)
      assert.matches('^[^\n]*' .. WHAT .. '[^\n]*no anchor was measured on both[^\n]*\n', text)
      assert.is_nil(run(command .. ' --mixed --db alike.db'):find('unlike', 1, true))
      assert.equal(0, select(2, run(command .. ' --db alike.db')))
      local of_one = {}
      for _, machine in ipairs { '=', '!=' } do
        text, status = run(('%s --as csv --where \'machine %s "mb0b1b2b"\' --db apart.db'):format(
          command, machine))
        assert.equal(0, status, text)
        of_one[machine] = select(2, text:gsub('\n%d+,', ''))
      end
      assert.is_true(of_one['='] > 0 and of_one['!='] > 0)
    end
    local text = run 'report widths --db apart.db -o r.html'
    local file = assert(io.open(folder .. '/r.html'))
    local page = file:read '*a'
    file:close()
    assert.matches('Which point is best is not said: they are of unlike machines', page, 1, true,
      text)
  end)

  it('are asked for by the name of a column, not by a value', function()
    for _, text in ipairs { 'machine', "machine = 'm1'", 'width > 3 and cpu != "x"',
      "host = 'it''s'" } do
      assert.is_true(unlike.named(text), text)
    end
    for _, text in ipairs { "device = 'cpu'", 'kind = "cpu"', "note = 'of this machine'",
      'machines > 1', 'width < 3', '' } do
      assert.is_false(unlike.named(text), text)
    end
    local text, status = run [[top widths --by fwd --where 'device = "cpu"' --db apart.db]]
    assert.equal(1, status, text)
  end)

  it('are told of by merge', function()
    local text, status = run 'merge all.db apart.db'
    assert.equal(0, status, text)
    assert.matches('\nwidths has points of unlike machines: .*Other CPU 7', text)
    assert.is_nil(run('merge other.db alike.db'):find('unlike', 1, true))
    assert.equal(6, #ridge.query('widths', 'machine', { db = folder .. '/all.db' }))
  end)
end)
