-- SPDX-License-Identifier: MIT
-- Columns of CSV files: taken, filled, coded; the same for another file, and through a checkpoint.
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local folders = dofile 'tests/lua/store/folder.lua'

describe('columns of a CSV file', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/x.csv'
  end)
  after_each(function() folders.remove(folder) end)

  local function csv(text, opts)
    local f = assert(io.open(path, 'wb'))
    f:write(text)
    f:close()
    return ridge.data.csv(path, opts)
  end

  local function refused(text, opts)
    local ok, err = pcall(csv, text, opts)
    assert.is_false(ok)
    assert.is_true(blame.is_error(err), tostring(err))
    return (tostring(err.message):gsub(path:gsub('%p', '%%%0'), 'FILE'))
  end

  local function said(x)
    local lines = {}
    for i, row in ipairs(x:to('f64'):tolist()) do
      for k, v in ipairs(row) do row[k] = v ~= v and 'nan' or ('%.17g'):format(v) end
      lines[i] = table.concat(row, ' ')
    end
    return x.dtype .. ': ' .. table.concat(lines, '; ')
  end

  local PEOPLE = 'name,age,city\nA,40,Rom\nB,,Bonn\nC,NA,\nD,20,"Bonn"\n'

  it('are taken by name or number, in the order that was asked for', function()
    local x, names, prepared = csv('a,b,c\n1,two,3\n4,five,6\n', { columns = { 'c', 'a' } })
    assert.equal('f32: 3 1; 6 4', said(x))
    assert.same({ 'c', 'a' }, names)
    assert.same({ 'c', 'a' }, prepared.names)
    assert.equal('f32: 3 1; 6 4', said(csv('1,2,3\n4,5,6\n', { columns = { 3, 1 },
      header = false })))
    -- numbers as names of columns, where they are asked for by name
    assert.equal('f32: 4', said(csv('1,2\n3,4\n', { columns = { '2' } })))
    assert.matches("FILE has no column 'agee' %(did you mean 'age'%?%)", refused(PEOPLE,
      { columns = { 'agee' } }))
    assert.matches('has 3 columns, and no column 4', refused(PEOPLE, { columns = { 4 },
      header = true }))
    assert.matches("two columns named 'a'", refused('a,a\n1,2', { columns = { 'a' } }))
    assert.matches("FILE names no columns: 'a' is a number", refused('1,2\n', { columns = { 'a' },
      header = false }))
    assert.is_nil((select(3, csv '1,2\n')))
  end)

  it('are nan where something is missing, or filled', function()
    local opts = { columns = { 'age' }, missing = { '', 'NA' } }
    assert.equal('f32: 40; nan; nan; 20', said(csv(PEOPLE, opts)))
    for fill, v in pairs { mean = '30', median = '30', mode = '20', [7.5] = '7.5' } do
      opts.fill = fill
      local x, _, prepared = csv(PEOPLE, opts)
      assert.equal(('f32: 40; %s; %s; 20'):format(v, v), said(x))
      assert.same({ age = { value = tonumber(v), rows = 2 } }, prepared.filled)
    end
    assert.equal('f32: 1 9; 2 5', said(csv('a,b\n1,\n,5\n', { fill = { b = 9, a = 2 } })))
    assert.equal('f32: 1 nan; nan 5', said(csv('a,b\n1,\n,5\n', { missing = { '' } })))
    assert.equal('f32: 1 nan; 1 5', said(csv('a,b\n1,\n,5\n', { missing = { '' },
      fill = { a = 'mean' } })))
    assert.equal('f32: 1; 2; 4; 100; 3', said(csv('a\n1\n2\n4\n100\n""\n', { fill = 'median' })))
    assert.equal('f32: 1; 9; 4; 4', said(csv('a\n1\n9\n4\n""\n', { fill = 'median' })))
    -- what is no number has no part in it
    for _, fill in ipairs { 'mean', 'median' } do
      assert.equal('f32: 1; nan; 3; 2', said(csv('a\n1\nnan\n3\n""\n', { fill = fill })))
    end
    assert.equal('f64: 1e+308; 1.5e+308; 1.25e+308', said(csv('a\n1e308\n1.5e308\n""\n',
      { fill = 'median', dtype = 'f64' })))
    -- a number keeps its meaning, and nothing is nan, where there is one
    assert.equal('f32: 1 0', said(csv('1,\n', { missing = 0, header = false })))
    assert.equal('f32: 1 nan; nan 5', said(csv('a,b\n1,\n,5\n')))
    assert.equal('f64: 1 nan', said(csv('a,b\n1,\n', { dtype = 'f64' })))
    for _, dtype in ipairs { 'u8', 'i8', 'i32', 'i64' } do
      assert.matches('line 2, column 2: an empty field is nan, which ' .. dtype .. ' has not',
        refused('a,b\n1,\n', { dtype = dtype }))
    end
    assert.matches("line 2, column 2: an empty field is not among the texts of missing: '' is one",
      refused('a,b\n1,\n', { missing = { 'NA' } }))
    assert.matches("line 2, column 1: 'NA' is no number", refused('a\nNA\n', { fill = 1 }))
    assert.matches('missing is a number, and fill says another', refused('a\n1', { missing = 0,
      fill = 1 }))
    assert.matches("fill is 'mean', 'median', 'mode' or a number, got 'zork'", refused('a\n1\n',
      { fill = 'zork' }))
    assert.matches('missing is a number, or a list of texts, and has 3', refused('a\n1\n',
      { missing = { 3 } }))
    assert.matches('has nothing in column a that it could be filled from', refused('a\nNA\n',
      { missing = { 'NA' }, fill = 'mean' }))
    assert.matches("has no column 'c'", refused('a,b\n1,2\n', { fill = { c = 1 } }))
    assert.matches('column b is to be filled, but not among', refused('a,b\n1,2\n',
      { columns = { 'a' }, fill = { b = 1 } }))
  end)

  it('of whole types are filled with whole numbers, or not at all', function()
    for _, dtype in ipairs { 'i64', 'i32', 'u8' } do
      assert.equal(dtype .. ': 40; 30; 30; 20', said(csv(PEOPLE, { columns = { 'age' },
        missing = { '', 'NA' }, fill = 'mean', dtype = dtype })))
      assert.matches("line 3, column 2: '' is missing, which " .. dtype .. ' has no nan for',
        refused(PEOPLE, { columns = { 'age' }, missing = { '', 'NA' }, dtype = dtype }))
      assert.matches('column a would be filled with 1.5, which its type cannot hold', refused(
        'a\n1\n2\n""\n', { fill = 'mean', dtype = dtype }))
    end
    for _, fill in ipairs { 'mean', 'median', 'mode' } do
      assert.matches('column a would be filled with about 900719925474099%d, which is rounded',
        refused('a\n9007199254740993\n""\n', { fill = fill, dtype = 'i64' }))
    end
    assert.equal('i64: 9007199254740993; 1', said(csv('a\n9007199254740993\n""\n', { fill = 1,
      dtype = 'i64' })):gsub('92$', '93'):gsub('0992;', '0993;'))
  end)

  it('of texts are numbers in the order of the texts', function()
    local x, names, prepared = csv(PEOPLE, { columns = { 'age', 'city' }, missing = { '', 'NA' },
      fill = 'mean', categories = { 'city' } })
    assert.same({ 'age', 'city' }, names)
    assert.equal('f32: 40 1; 30 0; 30 0; 20 0', said(x))
    assert.same({ city = { 'Bonn', 'Rom' } }, prepared.categories)
    assert.equal('city: 2 categories (Bonn, Rom)\nage: 2 rows filled with 30\n'
      .. 'city: 1 row filled with Bonn (0)', tostring(prepared))
    assert.equal('c: 1 category (x\\ny)', tostring((select(3, csv('c,d\n"x\ny",1\n',
      { categories = { 'c' } })))))
    -- whatever line has which first
    local y = csv('c\nz\na\nm\na\n', { categories = { 'c' } })
    assert.equal('f32: 2; 0; 1; 0', said(y))
    assert.equal('f32: 1; nan; 0', said(csv('c\nb\n""\na\n', { categories = { 'c' },
      missing = { '' } })))
    assert.equal('u8: 1 5; 0 6', said(csv('b,5\na,6\n', { categories = { 1 }, header = false,
      dtype = 'u8' })))
    assert.matches('column city is a category, but not among', refused(PEOPLE,
      { columns = { 'age' }, categories = { 'city' }, missing = { '', 'NA' } }))
  end)

  it('of another file are treated alike', function()
    local opts = { columns = { 'age', 'city' }, missing = { '', 'NA' }, fill = 'mean',
      categories = { 'city' } }
    local _, _, prepared = csv(PEOPLE, opts)
    local other = 'city,x,age\nRom,1,NA\nBonn,2,5\n,3,6\n'
    local x, names, again = csv(other, { like = prepared })
    assert.same({ 'age', 'city' }, names)
    assert.equal('f32: 30 1; 5 0; 6 0', said(x))
    assert.same(prepared:state(), again:state())
    assert.equal('f32: 30 1; 5 0; 6 0', said(csv(other, { like = prepared:state() })))
    assert.matches("FILE line 2, column 1: 'Paris' is no category of city", refused(
      'city,age\nParis,1\n', { like = prepared }))
    assert.matches("has no column 'age'", refused('city\nRom\n', { like = prepared }))
    assert.matches('like says already what fill says', refused(other, { like = prepared,
      fill = 1 }))
    assert.matches('like is what ridge.data.csv gave', refused(other, { like = {} }))
    local _, _, numbered = csv('b,5\na,\n', { categories = { 1 }, header = false, fill = 'mean' })
    assert.equal('f32: 0 5', said(csv('a,""\n', { like = numbered, header = false })))
  end)

  it('are taken twice where that is asked, filled and coded both times', function()
    local text = 'a,c\n1,x\n,y\n5,x\n'
    assert.equal('f32: 1 1; 3 3; 5 5', said(csv(text, { columns = { 'a', 'a' },
      fill = { a = 'mean' } })))
    assert.equal('f32: 0 0; 1 1; 0 0', said(csv(text, { columns = { 'c', 2 },
      categories = { 'c' } })))
  end)

  it('that have one name are filled and coded each by itself, elsewhere too', function()
    local text = 'a,a,b\n1,x,2\n,,3\n3,y,4\n'
    local x, names, prepared = csv(text, { fill = { [1] = 7, [2] = 'mode' }, missing = { '' },
      categories = { 2 } })
    assert.equal('f32: 1 0 2; 7 0 3; 3 1 4', said(x))
    assert.same({ 'a', 'a', 'b' }, names)
    assert.same({ ['1'] = { value = 7 }, ['2'] = { value = 0 } }, prepared:state().filled)
    assert.equal('f32: 7 1 5', said(csv('a,a,b\n,y,5\n', { like = prepared:state() })))
    assert.matches("two columns named 'a': say its number", refused(text, { fill = { a = 1 } }))
  end)

  it('refuse as like what is no preparation, whatever is in its parts', function()
    local function part(key, each)
      local like = { names = { 'a' }, categories = {}, filled = {}, missing = {} }
      like[key] = each
      return like
    end
    for _, like in ipairs { {}, part('names', { {} }), part('filled', { a = 3 }),
      part('filled', { a = { value = 'x' } }), part('missing', { 1 }), part('categories', 3),
      part('categories', { a = 'x' }), part('categories', { a = { 1 } }), part('names', 'a'),
      part('filled', { { value = 1 } }) } do
      assert.matches('^data.csv: like is what ridge.data.csv gave', refused('a\n1\n',
        { like = like }))
    end
    assert.equal('f32: 1', said(csv('a\n1\n', { like = part('names', { 'a' }) })))
  end)

  it('go into checkpoints, and other data is refused there', function()
    local x, _, prepared = csv('a,c\n1,u\n,v\n3,v\n4,u\n', { fill = 'mean', categories = { 'c' } })
    local function loader(list, p)
      return ridge.data.Loader(list, { batch = 2, seed = 1, prepared = p })
    end
    local function trainer()
      return ridge.Trainer(ridge.nn.Linear(2, 1, { seed = 1 }), { lr = 0.1, folder = folder,
        loss = ridge.nn.mse_loss, say = function() end })
    end
    local first = trainer()
    first:fit(loader({ x, ridge.zeros(4, 1) }, prepared), { epochs = 1 })
    first:save 'last'
    -- who has no preparation is given the one of the checkpoint
    local second, bare = trainer(), loader { x, ridge.zeros(4, 1) }
    assert.is_true(second:resume(bare))
    assert.same(prepared:state(), bare.prepared:state())
    assert.equal('f32: 1 1', said(csv('a,c\n1,v\n', { like = bare.prepared })))
    local _, _, other = csv('a,c\n1,u\n,v\n3,v\n5,u\n', { fill = 'mean', categories = { 'c' } })
    local ok, err = pcall(function() trainer():resume(loader({ x, ridge.zeros(4, 1) },
      other)) end)
    assert.is_false(ok)
    assert.matches('prepared with other filled', tostring(err))
    assert.has_error(function() loader({ x }, {}) end)
  end)

  it('are what the preparation calls them, whatever the other file has for names', function()
    local _, _, numbered = csv('1,x\n,y\n', { header = false, fill = 'mean', categories = { 2 },
      missing = { '' } })
    assert.equal('f32: 1 1', said(csv('a,b\n,y\n', { like = numbered, header = true })))
    local _, _, twice = csv('a,a\n7,1\n,2\n', { fill = 'mode' })
    local x, _, again = csv('p,q\n,3\n', { like = twice, header = true })
    assert.equal('f32: 7 3', said(x))
    assert.same(twice:state(), again:state())
  end)

  it('refuse codes that no text has, and texts that have two', function()
    local function like(texts, code)
      return { names = { 'a' }, categories = { a = texts }, filled = { a = { value = code } },
        missing = { '' } }
    end
    for _, odd in ipairs { like({ 'x', 'y' }, 2), like({ 'x', 'y' }, -1), like({ 'x', 'y' }, 0.5),
      like({ 'x', 'y' }, 0 / 0), like({ 'x', 'x' }, 0), like({}, 0) } do
      assert.matches('^data.csv: like is what', refused('a\nx\n', { like = odd }))
      local ok, err = pcall(function()
        return ridge.data.Loader({ ridge.zeros(2, 1) }, { batch = 1 }):load_state { prepared = odd }
      end)
      assert.is_false(ok)
      assert.matches('prepared is no preparation of ridge.data.csv', tostring(err))
    end
    assert.equal('f32: 0; 1', said(csv('a\nx\n""\n', { like = like({ 'x', 'y' }, 1) })))
    for _, odd in ipairs { 5, 'x', true, false } do
      assert.has_error(function()
        ridge.data.Loader({ ridge.zeros(2, 1) }, { batch = 1 }):load_state { prepared = odd }
      end)
    end
  end)

  it('take as their state the preparation itself', function()
    local _, _, prepared = csv('a,c\n1,u\n,v\n', { fill = 'mean', categories = { 'c' } })
    assert.equal(prepared, prepared:load_state(prepared))
    local _, _, other = csv('a,c\n2,u\n,v\n', { fill = 'mean', categories = { 'c' } })
    assert.has_error(function() prepared:load_state(other) end)
  end)

  it('have a header where one is named, whatever that looks like', function()
    for name, list in pairs { columns = { '0' }, categories = { '0' }, fill = { ['0'] = 1 } } do
      local x, names = csv('0,1\n7,8\n', { [name] = list })
      assert.same({ 1, name == 'columns' and 1 or 2 }, x:size(), name)
      assert.equal('0', names[1])
    end
    local _, _, prepared = csv('0,1\n7,8\n', { columns = { '1' } })
    assert.equal('f32: 3', said(csv('0,1\n2,3\n', { like = prepared })))
  end)

  it('are listed, and none is left out without a word', function()
    for name, of in pairs { columns = 'columns', categories = 'columns', missing = 'texts' } do
      assert.matches(("a list of %s is expected, and 'a' is no place in it"):format(of),
        refused('a,b\n1,2\n', { [name] = { a = true } }))
      assert.matches(('a list of %s is expected'):format(of), refused('a,b\n1,2\n',
        { [name] = { [2] = 'a' } }))
    end
    assert.matches('columns lists none', refused('a,b\n1,2\n', { columns = {} }))
  end)

  it('have no mean where they have no end', function()
    for _, text in ipairs { 'a\ninf\n""\n', 'a\n-inf\ninf\n""\n' } do
      assert.matches('FILE has inf in column a, which has no mean then', refused(text,
        { fill = 'mean' }))
      assert.matches('^f32: ', said(csv(text, { fill = 'mode' })))
    end
  end)

  it('are told in their order, and in a list in few words', function()
    local names, row = {}, {}
    for i = 1, 12 do names[i], row[i] = 'c' .. i, i end
    local _, _, prepared = csv(table.concat(names, ',') .. '\n' .. table.concat(row, ',') .. '\n',
      { fill = 'mean' })
    assert.matches('^c1: 0 rows filled with 1\nc2: 0 rows filled with 2\nc3: .*\n'
      .. 'c11: 0 rows filled with 11\nc12: 0 rows filled with 12$', tostring(prepared))
    assert.equal('12 columns, 12 that are filled', prepared:__line())
    _, _, prepared = csv(('k'):rep(200) .. ',n\na,1\n', { categories = { 1 }, header = true })
    assert.equal('2 columns, 1 of categories', prepared:__line())
    _, _, prepared = csv('k,n\na,1\n', { categories = { 'k' } })
    assert.equal('k: 1 category (a)', prepared:__line())
  end)

  it('say line and column of what is no table of numbers', function()
    assert.matches('FILE line 3 has 1 field, the first has 2', refused '1,2\n3,4\n5\n')
    assert.matches('FILE line 2, column 2: a byte 0', refused '1,2\n3,\0004\n')
    assert.matches('line 1, column 1: a byte 0, which no text has: is it UTF%-16%?', refused(
      '\255\254a\0,\0b\0\n\0001\0,\0002\0\n\0'))
    assert.equal('f32: 1 2; 3 4', said(csv '\239\187\1911,2\r\n3,4\r\n'))
    assert.matches("line 3, column 2: 'x' is no number", refused 'a,b\r\n1,2\r\n3,x\r\n')
    assert.matches('line 4, column 1', refused('a,b\n"1\n",2\nx,3\n', { header = true,
      missing = { '1\n' } }))
  end)
end)
