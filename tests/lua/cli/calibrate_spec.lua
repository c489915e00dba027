-- SPDX-License-Identifier: MIT
-- `ridge calibrate` on stored rows, and what it refuses; measuring is tested in measure/.

local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'
local lab = require 'ridge.sweep.lab'
local program = require 'tests.lua.repl.program'
local store = require 'ridge.store'

describe('ridge calibrate', function()
  local folder, db
  setup(function()
    folder = folders.new()
    db = folder .. '/c.db'
    local st, facts = store.open(db, 'write'), lab.facts()
    local device = st:device(st:machine(facts.machine), facts.device)
    local function rows(value)
      return { { name = 'fma.f32', threads = 2, unit = 'flop/s', value = value, ci_lo = value / 2,
                 ci_hi = 2 * value },
               { name = 'noise.aa', threads = 2, unit = '1', value = 0.0123 } }
    end
    st:add_ceilings(device, rows(1e11), 1e15)
    st:add_ceilings(device, rows(2e11), 2e15)
    st:close()
  end)
  teardown(function() folders.remove(folder) end)

  it('finds nothing of this machine where nothing was stored', function()
    local path = folder .. '/empty.db'
    store.open(path, 'write'):close()
    assert.is_nil(require('ridge.sweep.calibrated').stored(path))
  end)

  it('shows the newest of what is stored, dated', function()
    local status, out = program.run { 'calibrate', '--show', '--db', db }
    assert.equal(0, status)
    assert.truthy(out:find('fma.f32 +2 threads +200.0 Gflop/s %[100.0 .. 400.0%] +2033%-05%-1'))
    assert.truthy(out:find('noise.aa +2 threads +1.23 %%'))
    assert.is_nil(out:find '100.0 Gflop')
    status, out = program.run { 'calibrate', '--show', '--as', 'json', '--db', db }
    assert.equal(0, status)
    local list = canonical.decode(out).ceilings
    assert.same({ 2, 2e11, 2e15 }, { #list, list[1].value, list[1].at })
  end)

  it('ends with 2 where other processes were in the way now, whatever is known from before',
    function()
      local known = { { name = 'fma.f32', threads = 1, unit = 'flop/s', value = 1e11 } }
      local noise = { name = 'noise.aa', threads = 1, unit = '1', value = 0.01 }
      local code = [[
        local lab = require 'ridge.sweep.lab'
        lab.lease = function() return nil end
        lab.calibrate = function() return %s end
        os.exit(require('ridge.cli.calibrate').main { '--threads', '1', '--db', %q })]]
      local function status(rows)
        local parts = {}
        for i, row in ipairs(rows) do
          parts[i] = ('{ name = %q, threads = 1, unit = %q, value = %g }'):format(row.name,
            row.unit, row.value)
        end
        local text, found = folders.run(("./ridge -e '%s'"):format((code:format('{ '
          .. table.concat(parts, ', ') .. ' }', folder .. '/busy.db'):gsub("'", '"'))))
        return found, text
      end
      -- by hand: what was found, and the status
      local found, text = status(known)
      assert.equal(2, found, text)
      assert.matches('other processes were in the way', text)
      known[2] = noise
      found, text = status(known)
      assert.equal(0, found, text)
      assert.is_nil(text:find('in the way', 1, true))
      known[2] = nil
      assert.equal(2, (status(known)))
    end)

  it('shows what is stored of the numbers of threads that are named', function()
    local path = folder .. '/threads.db'
    local st = require('ridge.store').open(path, 'write')
    local code = [[local lab = require 'ridge.sweep.lab'
      lab.lease = function() return nil end
      lab.calibrate = function()
        local n = tonumber(require('ridge.ffi.lib').rg_threads())
        return { { name = 'fma.f32', threads = n, unit = 'flop/s', value = 1e11 * n } }
      end
      require('ridge.cli.calibrate').main { %s '--db', %q }]]
    st:close()
    local function measured(threads, into)
      folders.run(("./ridge -e '%s'"):format((code:format(threads, into):gsub("'", '"'))))
    end
    measured("'--threads', '1,2',", path)
    local function shown(words, of)
      local _, out = program.run { 'calibrate', '--show', '--db', of or path, unpack(words) }
      return select(2, out:gsub('fma.f32', '')), out
    end
    -- one, and as many as there are processors, where none are named
    local other, processors = folder .. '/all.db', tonumber((folders.run 'nproc'))
    require('ridge.store').open(other, 'write'):close()
    measured('', other)
    assert.equal(math.min(processors, 2), (shown({}, other)))
    for _, each in ipairs { 1, processors } do
      assert.equal(1, (shown({ '--threads', tostring(each) }, other)))
    end
    assert.equal(2, (shown {}))
    local n, out = shown { '--threads', '2' }
    assert.equal(1, n, out)
    assert.truthy(out:find('2 threads', 1, true))
    assert.equal(0, (shown { '--threads', '7' }))
  end)

  it('says what is wrong, with status 1', function()
    local status, _, err = program.run { 'calibrate', '--threads', '0' }
    assert.equal(1, status)
    assert.truthy(err:find("'0' is no number of threads", 1, true))
    status, _, err = program.run { 'calibrate', '--show', '--db', folder .. '/none.db' }
    assert.equal(1, status)
    assert.truthy(err:find('no results database', 1, true))
    status = program.run { 'calibrate', '--help' }
    assert.equal(0, status)
  end)
end)
