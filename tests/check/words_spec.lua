-- SPDX-License-Identifier: MIT
-- Phrases that scripts/check/words.lua refuses: each entry of its list has a sentence here that it
-- finds, in every kind of text that is looked at.

local Tree = dofile("scripts/check/tree.lua")
local DIALECT = dofile("scripts/check/dialect.lua")

-- By pattern: what must be refused, then, where the entry has exceptions, what must not.
local EXAMPLES = {
  ["the door"] = { "passes the door" },
  ["one door"] = { "goes through one door" },
  ["in the room"] = { "kernels are in the room cpu", "fits in the room of one in f32" },
  ["rooms? below"] = { "uses rooms below it" },
  ["ways? out"] = { "the bias is added on the way out" },
  ["turned"] = { "its left factor is turned", "the mode is turned on, and turned off again" },
  ["made ready"] = { "a product made ready" },
  ["making ready"] = { "Making ready" },
  ["as %a+ lies?"] = { "read as it lies" },
  ["li[ea]s? side by side"] = { "rows that lie side by side" },
  ["first%-level cache"] = { "half a first-level cache" },
  ["first cache"] = { "stays in the first cache" },
  ["second%-level cache"] = { "the second-level cache" },
  ["second cache"] = { "stays in the second cache" },
  ["near cache"] = { "is in no near cache" },
  ["lets? go of"] = { "it lets go of the memory" },
  ["letting go of"] = { "letting go of a step" },
  ["ways? back"] = { "kept for the way back" },
  ["stop by stop"] = { "goes stop by stop" },
  ["what arriv%a+"] = { "what arrives goes on" },
  ["arrives? at"] = { "the gradient that arrives at y" },
  ["ha[sv]e? arrived"] = { "the gradient that has arrived" },
  ["wants? a gradient"] = { "a tensor that wants a gradient" },
  ["wants? no gradient"] = { "x wants no gradient" },
  ["lower types?"] = { "weights in a lower type" },
  ["functions? of one element"] = { "functions of one element" },
  ["functions? of two elements"] = { "a function of two elements" },
  ["functions? of elements"] = { "neighbouring functions of elements" },
  ["is taken off"] = { "the maximum is taken off first" },
  ["running sums?"] = { "running sums along an axis" },
  ["by their numbers?"] = { "rows by their numbers" },
  ["joining of tensors"] = { "the joining of tensors" },
  ["joining tensors"] = { "joining tensors along an axis" },
  ["makers?"] = { "the maker's library" },
  ["tak%a+ note"] = { "while a device takes note" },
  ["be noted"] = { "it cannot be noted" },
  ["steps are noted"] = { "steps are noted" },
  ["comes? behind"] = { "the stream comes behind the other" },
  ["marks? in %a+ streams?"] = { "marks in the stream" },
  ["marks? in a stream"] = { "a mark in a stream" },
  ["complain%a*"] = { "kernels complain about numbers", "a field complain? of the session" },
  ["profiler that looks on"] = { "for a profiler that looks on" },
  ["left behind"] = { "a call that was left behind" },
  ["nobody tells"] = { "NaN: nobody tells" },
  ["not tell"] = { "the machine does not tell" },
  ["and its kind"] = { "exp and its kind" },
}

-- What the check prints of a tree with these files, and whether it passes.
local function check(files)
  local root = Tree.run("mktemp -d")[1]
  for path, text in pairs(files) do
    os.execute("mkdir -p " .. Tree.quote(root .. "/" .. (path:match("^(.*)/") or "")))
    local file = assert(io.open(root .. "/" .. path, "w"))
    file:write(text)
    file:close()
  end
  local lines, ok = Tree.run("luajit scripts/check/words.lua " .. root .. " 2>&1")
  os.execute("rm -rf " .. Tree.quote(root))
  return table.concat(lines, "\n"), ok
end

-- The number of the first line that is refused, 0 for none.
local function refused(path, text)
  local output, ok = check { [path] = text }
  assert.are.equal(output == "", ok)
  return tonumber(output:match("^[%w./]+:(%d+): ")) or output == "" and 0 or output
end

describe("words", function()
  it("refuses the example of each entry, by that entry", function()
    local text = {}
    for i, entry in ipairs(DIALECT) do
      local example = assert(EXAMPLES[entry[1]], "no example of " .. entry[1])
      text[i] = example[1] .. ".\n"
    end
    local output = "\n" .. check { ["a.md"] = table.concat(text, "\n") }
    for i, entry in ipairs(DIALECT) do
      local found = output:find(("\na.md:%d: "):format(2 * i - 1), 1, true)
      assert.truthy(found, entry[1])
      local line = output:sub(found):match("^\n[^\n]*")
      assert.truthy(line:find("say " .. entry[2], 1, true), entry[1])
    end
  end)
  it("lets pass what is meant otherwise", function()
    for pattern, example in pairs(EXAMPLES) do
      if example[2] then assert.are.equal(0, refused("a.md", example[2]), pattern) end
    end
  end)
  it("has no example of an entry that is gone", function()
    local known = {}
    for _, entry in ipairs(DIALECT) do known[entry[1]] = true end
    for pattern in pairs(EXAMPLES) do assert.truthy(known[pattern], pattern) end
  end)
  it("reads comments, strings and documents", function()
    assert.are.equal(2, refused("a.c", "int x;\n/* running sums */\n"))
    assert.are.equal(1, refused("a.cu", "int x; // running sums\n"))
    assert.are.equal(1, refused("a.h", 'const char *s = "of \\" running sums";\n'))
    assert.are.equal(3, refused("a.lua", "--[[\nof\nrunning sums]]\n"))
    assert.are.equal(1, refused("a.lua", "raise('running sums')\n"))
    assert.are.equal(2, refused("scripts/a.sh", "x=1\necho running sums\n"))
  end)
  it("reads on in the next line", function()
    assert.are.equal(1, refused("a.c", "/* of running\n** sums */\n"))
    assert.are.equal(1, refused("a.lua", "raise('running ' ..\n  'sums')\n"))
  end)
  it("does not read code, nor parts of words", function()
    assert.are.equal(0, refused("a.c", "int turned = running(sums);\n"))
    assert.are.equal(0, refused("a.lua", "local turned = x.turned\n"))
    assert.are.equal(0, refused("a.md", "returned by a filmmaker\n"))
  end)
end)
