-- SPDX-License-Identifier: MIT
-- mutate_spec: scripts/mutate plants each kind of mistake where it should and nowhere else, and
-- tells a mistake that a test notices from one that none does.

local plant = dofile 'scripts/mutate_plant.lua'

local C_SOURCE = [[
/* a + b, f(a, b); */
#include <a < b>
static int f(int first, int *second)
{
  const char *text = "1 + 1";
  int n = first - 1;

  for (int i = 0; i < n; i++) {
    *second = 3;
    g(first, n);
  }
  if (n == 7 && first) {
    text = other(text, n);
  }
  return n * 2;
}
]]

local LUA_SOURCE = [[
-- a + b
local function f(first, second)
  local text = '1 + 1' .. [=[ 2 < 3 ]=]
  if first < 10 and text then
    g(first,
      second)
    first = first + 1
  end
  return { x = first, y = true }
end
]]

-- "line kind: what it was -> what it is", sorted by place.
local function told(source, language, kind)
  local list = {}
  for _, mutant in ipairs(plant.mutants(source, language)) do
    if not kind or mutant.kind == kind then
      list[#list + 1] = ('%d: %s -> %s'):format(mutant.line,
        (source:sub(mutant.from, mutant.to):gsub('%s+', ' ')), mutant.text)
    end
  end
  return list
end

describe('a mistake planted in C', function()
  it('is another operator of two values, never a pointer, a text or a comment', function()
    assert.same({ '6: - -> +', '12: == -> !=', '12: && -> ||', '15: * -> /' },
      told(C_SOURCE, 'c', 'operator'))
  end)

  it('is another number', function()
    assert.same({ '8: 0 -> 1', '9: 3 -> 4', '12: 7 -> 8', '15: 2 -> 3' },
      told(C_SOURCE, 'c', 'constant'))
    assert.same({ '1: 1 -> 0', '1: 0.5f -> (0.5f + 1)', '1: 16u -> 17u', '1: true -> false' },
      told('f(1 , 0.5f, 16u, 0xff, true);', 'c', 'constant'))
  end)

  it('is one too many or too few', function()
    assert.same({ '6: 1 -> 0', '8: < -> <=' }, told(C_SOURCE, 'c', 'off by one'))
    assert.same({ '1: <= -> <', '1: > -> >=' }, told('x = a <= b || a > c;', 'c', 'off by one'))
  end)

  it('is a call or an assignment that is not there, never a declaration', function()
    assert.same({ '10: g(first, n); -> ;', '13: text = other(text, n); -> ;' },
      told(C_SOURCE, 'c', 'dropped'))
    assert.same({ '1: x->n++; -> ;', '1: __syncthreads(); -> ;' },
      told('{ x->n++; int k = 3; return f(x); __syncthreads(); T a[3]; }', 'cuda', 'dropped'))
  end)

  it('is two arguments that changed places, in calls alone', function()
    assert.same({ '10: first, n -> n, first', '13: text, n -> n, text' },
      told(C_SOURCE, 'c', 'swapped'))
    assert.same({}, told('f(a, a);', 'c', 'swapped'))
  end)

  -- What changes nothing that a test could see is no mutant; a smaller one in its place is.
  it('is less memory, never more of it', function()
    local function constants(text)
      return told('void f(int n)\n{\n' .. text .. '\n}\n', 'c', 'constant')
    end
    assert.same({ '3: 2 -> 1', '3: 7 -> 6' }, constants 'x = rg_host_alloc(2 * (size_t)n + 7);')
    assert.same({ '3: 3 -> 2' }, constants 'x = rg_host_zeroed(p->n * 3 * sizeof(*x));')
    assert.same({ '3: 8u -> 7u', '3: 4 -> 3' }, constants 'x = calloc(8u, n << 4);')
    assert.same({ '3: 2 -> 3', '3: 5 -> 6', '3: 3 -> 2' },
      constants 'x = realloc(y[2 * 5], 3 * n);') -- which block it is, and its size
    -- a difference, a quotient or a call may make it smaller
    assert.same({ '3: 3 -> 4', '3: 4 -> 5' }, constants 'x = malloc((n - 3) * 4);')
    assert.same({ '3: 8 -> 9' }, constants 'x = malloc(n / 8);')
    assert.same({ '3: 2 -> 3' }, constants 'x = malloc(g(n * 2));')
    assert.same({ '3: 2 -> 3' }, constants 'x = other(n * 2);')
    assert.same({ '3: 1 -> 0' }, told('void f(int n)\n{\nx = malloc(n + 1);\n}', 'c', 'off by one'))
  end)

  it('is a smaller array in a function, where nothing asks for its size', function()
    local function constants(text) return told(text, 'c', 'constant') end
    assert.same({ '1: 2 -> 1' }, constants 'void f(void) { const struct s *x[2]; }')
    assert.same({ '1: 2 -> 1' }, constants 'void f(void) { if (n) { char x[2]; } }')
    assert.same({ '1: 2 -> 3' }, constants 'void f(void) { char x[2]; g(x, sizeof(x)); }')
    assert.same({ '1: 2 -> 3' }, constants 'void f(void) { char x[2]; g(x, sizeof x); }')
    assert.same({ '1: 2 -> 3' }, constants 'void f(void) { char x[2]; g(x, COUNT(x)); }')
    assert.same({ '1: 2 -> 3' }, constants 'void f(void) { static char x[2]; }')
    assert.same({ '1: 2 -> 3' }, constants 'void f(void) { __shared__ float x[2]; }')
    assert.same({ '1: 2 -> 3' }, constants 'void f(void) { struct { int x[2]; } y; }')
    assert.same({ '1: 2 -> 3' }, constants 'struct s { int x[2]; };')
    assert.same({ '1: 2 -> 3' }, constants 'int x[2];')
    assert.same({ '1: 2 -> 3' }, constants 'void f(void) { return x[2]; }')
    assert.same({ '1: 2 -> 3' }, constants 'void f(void) { y = x[2]; }')
    assert.same({ '1: 2 -> 3', '1: 3 -> 4' }, constants 'void f(void) { int x[2][3]; }')
    assert.same({ '1: 2 -> 3' }, told('void f(void) { int x[2]; }', 'cuda', 'constant'))
  end)

  it('is no argument that changed places where both ways are the same', function()
    local function swapped(text) return told('void f(void) { ' .. text .. ' }', 'c', 'swapped') end
    assert.same({}, swapped 'n = rg_max_i64(a, b);')
    assert.same({}, swapped 'n = strcmp(a, b) == 0;')
    assert.same({ '1: b, n -> n, b' }, swapped 'n = memcmp(a, b, n) != 0;')
    assert.same({ '1: a, b -> b, a' }, swapped 'n = strcmp(a, b) < 0;')
    assert.same({ '1: a, b -> b, a' }, swapped 'n = strcmp(a, b);')
    assert.same({ '1: a, b -> b, a' }, swapped 'n = other(a, b) == 0;')
  end)

  it('is a condition that is negated', function()
    assert.same({ '12: n == 7 && first -> !(n == 7 && first)' }, told(C_SOURCE, 'c', 'negated'))
  end)
end)

describe('a mistake planted in Lua', function()
  it('is of each kind, in its place', function()
    assert.same({ '4: and -> or', '7: + -> -' }, told(LUA_SOURCE, 'lua', 'operator'))
    assert.same({ '4: 10 -> 11', '9: true -> false' }, told(LUA_SOURCE, 'lua', 'constant'))
    assert.same({ '4: < -> <=', '7: 1 -> 0' }, told(LUA_SOURCE, 'lua', 'off by one'))
    assert.same({ '5: g(first, second) -> ', '7: first = first + 1 -> ' },
      told(LUA_SOURCE, 'lua', 'dropped'))
    assert.same({ '5: first, second -> second, first' }, told(LUA_SOURCE, 'lua', 'swapped'))
    assert.same({ '1: a, b -> b, a' }, told('g(a, b)', 'lua', 'swapped'))
    assert.same({ '4: first < 10 and text -> not (first < 10 and text)' },
      told(LUA_SOURCE, 'lua', 'negated'))
  end)

  it('leaves a program behind, of as many lines', function()
    for _, mutant in ipairs(plant.mutants(LUA_SOURCE, 'lua')) do
      local text = plant.planted(LUA_SOURCE, mutant)
      assert.is_truthy(loadstring(text), text)
      assert.equal(select(2, LUA_SOURCE:gsub('\n', '')), select(2, text:gsub('\n', '')))
      assert.not_equal(LUA_SOURCE, text)
    end
  end)

  it('knows the block it is in, and sources note the blocks that are entered', function()
    local source = '-- first line\n' .. [[
local n = 0
local function f(x)
  if x then n = n + 1 else n = n + 2 end
end
f(false)
return n]]
    _G.noted = {}
    assert.equal(2, assert(loadstring(plant.counting(source, '_G.noted')))())
    assert.same({ [0] = 1, 1, [3] = 1 }, _G.noted) -- the file, the function, its else
    _G.noted = nil
    local places = {}
    for _, mutant in ipairs(plant.mutants(source, 'lua')) do
      places[#places + 1] = mutant.kind .. ' ' .. mutant.place
    end
    assert.same({ 'constant 0', 'negated 1', 'operator 2', 'off by one 2', 'operator 3',
      'constant 3', 'dropped 0', 'constant 0' }, places)
  end)
end)

describe('scripts/mutate', function()
  local map = dofile 'scripts/mutate_map.lua'
  local judge = dofile 'scripts/mutate_judge.lua'
  local lines, tree = map.lines, nil

  before_each(function() tree = lines 'mktemp -d'[1] end)
  after_each(function() map.run('rm -rf ' .. tree .. '*') end)

  -- What becomes of the only mutant of a kind, by these commands.
  local function verdict(path, kind, ...)
    local source, found = map.read(tree .. '/' .. path), nil
    for _, mutant in ipairs(plant.mutants(source, plant.language_of(path))) do
      if mutant.kind == kind then
        assert.is_nil(found)
        mutant.path, mutant.language = path, plant.language_of(path)
        found = mutant
      end
    end
    local units = {}
    for i, command in ipairs { ... } do
      units[i] = { name = 'unit ' .. i, command = command, folder = 'core',
        seconds = command:find 'while' and -5.8 or 20 } -- a loop without end has one second
    end
    local what, unit = judge.judge(tree, found, units, 100)
    assert.equal(source, map.read(tree .. '/' .. path)) -- it is gone again
    return what, unit
  end

  it('tells what a test of Lua notices from what none does', function()
    map.run('mkdir -p ' .. tree .. '/lua ' .. tree .. '/build')
    map.write(tree .. '/lua/sum.lua', 'local a, b = ...\nlocal c = a + b\n'
      .. 'if c < 3 then return c end')
    local small = "luajit -e \"assert(loadfile('lua/sum.lua')(1, 0) == 1)\""
    local all = "luajit -e \"assert(loadfile('lua/sum.lua')(1, 1) == 2)\""
    assert.same({ 'survived', '' }, { verdict('lua/sum.lua', 'operator', small) })
    assert.same({ 'caught', 'unit 2' }, { verdict('lua/sum.lua', 'operator', small, all) })
    assert.same({ 'survived', '' }, { verdict('lua/sum.lua', 'off by one', small, all) })
    assert.same({ 'caught', 'unit 1' }, { verdict('lua/sum.lua', 'negated', small, all) })
    assert.same({ 'not reached', '' }, { verdict('lua/sum.lua', 'negated') })
    -- a test that fails without the mutant too says nothing of it
    assert.same({ 'survived', '' }, { verdict('lua/sum.lua', 'operator', 'false', small) })
    local hangs = 'luajit -e "while loadfile(\'lua/sum.lua\')(1, 1) ~= 2 do end"'
    assert.same({ 'hung', 'unit 1' }, { verdict('lua/sum.lua', 'operator', hangs) })
  end)

  it('builds what was planted in C, and counts no program that stays the same', function()
    map.run('mkdir -p ' .. tree .. '/core ' .. tree .. '/build/tests')
    map.write(tree .. '/Makefile', 'build/obj/core/%.o: core/%.c\n\t@mkdir -p build/obj/core\n'
      .. '\t@cc -O1 $(WERROR) -c -o $@ $<\nbuild/tests/sum: build/obj/core/sum.o\n\t@cc -o $@ $<\n')
    local function write(text)
      map.write(tree .. '/core/sum.c', text)
      assert.equal(0, map.run('make -s -C ' .. tree .. ' -B build/obj/core/sum.o'))
    end
    local run = 'build/tests/sum'
    write 'static int n;\nint main(int argc, char **argv)\n{\n  n = argc;\n  return n - 1;\n}\n'
    assert.equal(0, map.run('make -s -C ' .. tree .. ' build/tests/sum'))
    assert.same({ 'caught', 'unit 1' }, { verdict('core/sum.c', 'operator', run) })
    assert.same({ 'caught', 'unit 1' }, { verdict('core/sum.c', 'dropped', run) })
    assert.equal(0, map.run('make -s -C ' .. tree .. ' build/tests/sum && ' .. tree .. '/' .. run))
    write 'int main(int argc, char **argv)\n{\n  return argc == 9 ? 7 : 0;\n}\n'
    assert.same({ 'survived', '' }, { verdict('core/sum.c', 'operator', 'true', 'exit 0') })
    write 'int main(int argc, char **argv)\n{\n  return (argc & 1) < 2;\n}\n'
    assert.same({ 'equal', '' }, { verdict('core/sum.c', 'off by one', run) })
    write 'void f(char **, int *);\nint main(int argc, char **argv)\n{\n  f(argv, &argc);\n}\n'
    assert.same({ 'not built', '' }, { verdict('core/sum.c', 'swapped', run) })
  end)

  it('does not go on without the program that tells lines', function()
    local text = table.concat(lines([[luajit -e "
      local popen = io.popen
      function io.popen(command)
        return popen(command:find 'command %-v' and 'true' or 'echo 0x1 3 0 1')
      end
      print(pcall(dofile('scripts/mutate_lines.lua').blocks, 'build/ridge'))"]]), '\n')
    assert.equal('false\tmutate: there is no llvm-dwarfdump; scripts/deps mutate installs it', text)
    assert.equal('', table.concat(lines 'scripts/deps --check mutate | grep -v missing', '\n'))
    assert.equal('2', table.concat(lines 'scripts/deps --check zork >/dev/null; echo $?', '\n'))
  end)

  it('prints the mutants that a seed draws, and plants none', function()
    local function drawn(seed)
      return lines('scripts/mutate --seed ' .. seed .. ' --count 4 --paths core/base,lua --draw')
    end
    local list = drawn(5)
    assert.equal(12, #list)
    for k = 1, 12, 3 do
      local number, path, line = list[k]:match '^(%d+): (%S+):(%d+) %(%l[%l ]+%)$'
      assert.equal((k + 2) / 3, tonumber(number))
      local source = lines('sed -n ' .. line .. 'p ' .. path)[1]
      assert.equal('  -' .. source, list[k + 1])
      assert.equal('  +', list[k + 2]:sub(1, 3))
      assert.is_true(list[k + 2]:sub(4) ~= source)
    end
    assert.same(list, drawn(5))
    assert.is_true(table.concat(drawn(6)) ~= table.concat(list))
  end)

  it('tells its options, and refuses others', function()
    assert.matches('usage: scripts/mutate', table.concat(lines 'scripts/mutate --help', '\n'))
    local said = table.concat(lines 'scripts/mutate --zork 3 2>&1; echo $?', '\n')
    assert.matches("no option '%-%-zork'", said)
    assert.matches('\n2$', said)
  end)
end)
