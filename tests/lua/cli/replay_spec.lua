-- SPDX-License-Identifier: MIT
-- `ridge replay` as typed: the stored recipe runs, not the file, and nothing is stored.

local folders = dofile 'tests/lua/store/folder.lua'

local RECIPE = [[
local ridge = require 'ridge'
local opt = ridge.args { { 'n', 16, 'elements' } }
ridge.sweep 'small' {
  space = { k = { 1, 2 } }, args = { n = opt.n }, protocol = 'quick',
  setup = function(p) return { x = ridge.ones(opt.n * p.k) } end,
  measure = function(p, c, m)
    m:metric('value', p.k)
    if p.k == 1 then m:time('relu', ridge.capture(function() return c.x:relu() end)) end
  end,
}:run { calibrate = false, progress = 'off' }
]]

describe('ridge replay', function()
  local folder, db, file

  local function ridge(words)
    return folders.run(('RIDGE_LOCKS=%s/locks RIDGE_DB=%s ./ridge %s'):format(folder, db, words))
  end
  local function write(text)
    local out = io.open(file, 'w')
    out:write(text)
    out:close()
  end

  setup(function()
    folder = folders.new()
    db, file = folder .. '/s.db', folder .. '/small.lua'
    write(RECIPE)
    local text, status = ridge(file .. ' --n 32')
    assert.equal(0, status, text)
    write 'error "not the stored one"'
  end)
  teardown(function() folders.remove(folder) end)

  local function trial_of(k)
    return ridge(('query small trial --where "k = %d" --as csv'):format(k)):match '(%d+)\n$'
  end

  it('measures a point again by its stored recipe, and stores nothing', function()
    local function attempts() return ridge "query --sql 'SELECT count(*) FROM attempt' --as csv" end
    local before = attempts()
    local text, status = ridge(('replay %s -- --n 32'):format(trial_of(1)))
    assert.is_true(status == 0 or status == 3, text)
    assert.matches('relu +then %S+ .s %[.-%]   now %S+ .s %[.-%]', (text:gsub('µ', 'u')))
    assert.matches('%d%.%d%d%dx  %a+', text)
    assert.equal(before, attempts())
  end)

  it('forms a ratio of unlike machines only where it is asked to', function()
    local other = folder .. '/other.db'
    os.execute(('cp %s %s'):format(db, other))
    local st = require('ridge.store.sqlite').open(other, 'write')
    st:run "UPDATE machine SET cpu = 'Other CPU 7'"
    st:close()
    local words = ('replay %s --db %s %%s -- --n 32'):format(trial_of(1), other)
    local text, status = ridge(words:format '')
    assert.equal(1, status, text)
    assert.matches('trial %d+ was measured on an unlike machine: Other CPU 7, and here is .*'
      .. '%-%-mixed', text)
    assert.is_nil(text:find('process 1', 1, true)) -- before any work
    text, status = ridge(words:format '--mixed')
    assert.is_true(status == 0 or status == 3, text)
    assert.matches('relu +then', text)
  end)

  it('takes another GPU of one name for the same, and one of another name for none', function()
    local replay = require 'ridge.sweep.replay'
    local function run(kind, device, mixed)
      local trial = { id = 7, kind = kind, device = device, cpu = 'C', args = '{}', params = '{}',
        protocol = '{}', timings = { f = { med = 2 } }, ceilings = {}, seed = 1 }
      local lab = { facts = function()
        return { machine = { cpu = 'C' }, device = { kind = kind, name = 'GPU A' } }
      end, fresh = function() return { 'f' }, { { med = 3, grade = 'A' } } end }
      return pcall(replay.run, trial, {}, { arguments = function() return {} end },
        { lab = lab, mixed = mixed, progress = function() end })
    end
    for kind, names in pairs { cuda = { ['GPU A'] = true, ['GPU B'] = false },
        cpu = { ['GPU A'] = true, ['GPU B'] = true } } do -- of a CPU the processor says it
      for name, same in pairs(names) do
        local ok, found = run(kind, name)
        assert.equal(same, ok, name)
        if ok then
          assert.equal(1.5, found[1].ratio)
        else
          assert.equal('EARG', found.code)
          assert.matches('trial 7 was measured on an unlike machine: GPU B, and here is GPU A;',
            found.message)
          assert.is_true((run(kind, name, true)))
        end
      end
    end
  end)

  it('says what stands in the way', function()
    for words, pattern in pairs {
      [trial_of(1)] = 'other arguments: {"n":32} then, {"n":16} now',
      [trial_of(2) .. ' -- --n 32'] = 'was not timed', ['4711'] = 'no trial 4711',
      ['x'] = 'no number', [''] = 'is missing',
    } do
      local text, status = ridge('replay ' .. words)
      assert.equal(1, status, words)
      assert.matches(pattern, text, 1, true)
    end
  end)
end)
