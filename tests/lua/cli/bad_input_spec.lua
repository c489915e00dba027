-- SPDX-License-Identifier: MIT
-- What is wrong with a recipe, a database or a disk is said in one sentence that says what to do,
-- with the right exit code, and nothing that was measured before is lost.

local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

local RECIPE = [[
local ridge = require 'ridge'
return ridge.sweep 'widths' {
  space = { a = { 1, 2, 3 } },
  measure = function(p, _, m) m:metric('loss', p.a * 2, { better = 'lower' }) end,
}
]]

describe('bad input', function()
  local folder, recipe, db

  local function write(path, text)
    local file = assert(io.open(path, 'wb'))
    file:write(text)
    file:close()
  end

  local function read(path)
    local file = assert(io.open(path, 'rb'))
    local text = file:read '*a'
    file:close()
    return text
  end

  local function ridge(words)
    return folders.run(('RIDGE_DB=%s RIDGE_PROGRESS=off NO_COLOR=1 ./ridge %s'):format(db, words))
  end

  -- The sweep of the recipe with `from` changed into `to`.
  local function sweep(words, from, to)
    local text = RECIPE
    if from then
      local first, last = assert(text:find(from, 1, true))
      text = text:sub(1, first - 1) .. to .. text:sub(last + 1)
    end
    write(recipe, text)
    return ridge(('sweep %s --no-calibrate %s'):format(recipe, words or ''))
  end

  -- One sentence on standard error, at the place if there is one, and status 1.
  local function refused(pattern, text, status)
    assert.matches(pattern, text)
    assert.equal(1, status, text)
    local lines = select(2, text:gsub('\n', ''))
    assert.is_true(lines <= 2, text)
    assert.is_nil(text:find('stack traceback', 1, true), text)
    assert.is_nil(text:find('lua/ridge/', 1, true), text)
  end

  -- What the first, good, sweep measured.
  local function kept()
    local text, status = ridge "query widths 'a, loss' --sort a --as csv"
    assert.equal(0, status, text)
    assert.equal('a,loss\n1,2\n2,4\n3,6\n', text)
  end

  before_each(function()
    folder = folders.new()
    recipe, db = folder .. '/widths.lua', folder .. '/s.db'
    local text, status = sweep()
    assert.equal(0, status, text)
  end)
  after_each(function() folders.remove(folder) end)

  it('names the line of a syntax error', function()
    refused("unexpected symbol near '='\n   at .*widths%.lua:3  ",
      sweep('', 'space = {', 'space = = {'))
    kept()
  end)

  it('names a parameter that is not there, and the nearest', function()
    refused("^error: %-P aa: .*no parameter of that name %(did you mean 'a'%?%)", sweep '-P aa=1')
    refused('^error: %-P a: x is a string; the recipe\'s values are numbers', sweep '-P a=x')
    kept()
  end)

  it('says which part of the space is empty', function()
    refused('parameter a has no values', sweep('', '{ 1, 2, 3 }', '{}'))
    refused('space has no parameters', sweep('', '{ a = { 1, 2, 3 } }', '{}'))
    refused('none of 3 combinations is left by where', sweep "--where 'a > 9'")
    kept()
  end)

  it('keeps a metric that is a string as the failure of its points', function()
    local text, status = sweep('--new', 'p.a * 2', '"high"')
    assert.equal(2, status, text)
    text, status = folders.run(('RIDGE_DB=%s RIDGE_PROGRESS=plain ./ridge sweep %s --no-calibrate')
      :format(db, recipe))
    assert.equal(2, status, text)
    assert.matches('3 x error: .*m:metric: loss is high %(string%); expected a number', text)
    local trial = text:match 'ridge show (%d+)'
    text, status = ridge('show ' .. trial)
    assert.equal(0, status)
    assert.matches('widths%.lua:4: m:metric: loss is high', text)
    kept()
  end)

  it('asks for the name of a sweep first', function()
    refused("^error: the name comes first: ridge%.sweep 'widths' {",
      sweep('', "ridge.sweep 'widths' {", 'ridge.sweep {'))
    kept()
  end)

  it('reads a database of a newer version, and does not write it', function()
    local file = sqlite.open(db, 'write')
    file:exec 'PRAGMA user_version=99'
    file:close()
    local before = read(db)
    refused('written by a newer ridge %(schema 99.*update ridge, or .* %-%-db', sweep())
    assert.equal(before, read(db))
    kept()
  end)

  it('puts no page and no table over a database, its own or behind a link', function()
    local other = folder .. '/page.html'
    os.execute(("ln -s s.db '%s'"):format(other))
    local was = read(db)
    for _, words in ipairs { 'report widths -o ' .. db, 'report widths -o ' .. other,
        'export widths --as csv -o ' .. db } do
      local text, status = ridge(words)
      refused(' cannot be written: it is a database', text, status)
      assert.equal(was, read(db))
    end
    local text, status = ridge('report widths -o ' .. folder .. '/new.html')
    assert.equal(0, status, text)
  end)

  it('says how to save what is left of a truncated database', function()
    local whole = read(db)
    for _, n in ipairs { 1, 50, 100, 4096, 8192, #whole - 4096, #whole - 1 } do
      write(db, whole:sub(1, n))
      local text, status = sweep()
      assert.equal(1, status, text)
      assert.matches(n < 100 and 'no SQLite file' or 'is cut off: %d+ bytes of %d+ .*%.recover',
        text)
      assert.equal(n, #read(db))
      text, status = ridge 'sweeps'
      assert.equal(1, status, text)
    end
    write(db, whole)
    kept()
  end)

  it('says that a folder is read-only, and what else would do', function()
    local root = select(2, folders.run('mount --bind ' .. folder .. ' ' .. folder)) == 0
    if root then
      folders.run(('mount -o remount,bind,ro %s'):format(folder))
    else
      folders.run(('chmod 444 %s; chmod 555 %s'):format(db, folder))
    end
    local ok, err = pcall(function()
      refused('is read%-only for this user; make it writable, or name another with %-%-db',
        ridge(('sweep %s --no-calibrate'):format(recipe)))
      refused('the folder of .*/new%.db is read%-only',
        ridge(('sweep %s --no-calibrate --db %s/new.db'):format(recipe, folder)))
      kept()
    end)
    if root then folders.run('umount -l ' .. folder) end
    folders.run(('chmod 755 %s; chmod 644 %s'):format(folder, db))
    if not ok then error(err, 0) end
    kept()
  end)

  it('stops on a full disk with what it has, and goes on when there is space', function()
    local words = '-P a=1..400 --new'
    write(recipe, RECIPE)
    local text, status = folders.run(([[trap '' XFSZ; ulimit -f 900
      RIDGE_DB=%s RIDGE_PROGRESS=off ./ridge sweep %s --no-calibrate %s]])
      :format(db, recipe, words))
    refused('reading or writing failed', text, status)
    kept()
    text, status = ridge(('sweep %s --no-calibrate %s'):format(recipe, words))
    assert.equal(0, status, text)
    assert.equal('400\n', (ridge 'query widths-2 "count(a)" --as csv':match '\n(%d+\n)'))
  end)

  it('does the same on a small file system', function()
    local small = folder .. '/small'
    local _, status = folders.run(('mkdir %s && mount -t tmpfs -o size=600k none %s')
      :format(small, small))
    if status ~= 0 then
      pending 'mounting a small file system needs root'
      return
    end
    local command = ('sweep %s --no-calibrate -P a=1..400 --db %s/s.db'):format(recipe, small)
    local ok, err = pcall(function()
      refused('the disk is full; what was saved is safe', ridge(command))
      folders.run(('mount -o remount,size=20m %s'):format(small))
      local text, code = ridge(command)
      assert.equal(0, code, text)
    end)
    folders.run('umount -l ' .. small)
    if not ok then error(err, 0) end
  end)
end)
