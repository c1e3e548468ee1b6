// SPDX-License-Identifier: GPL-2.0-only
//
// An allocator that takes large blocks from the system page by page and gives them back at once. So of a queue that
// has grown no former copy is left over between the blocks of the heap.
#ifndef BBRGYM_WORLD_PAGE_ALLOCATOR_HPP
#define BBRGYM_WORLD_PAGE_ALLOCATOR_HPP

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>

namespace bbrgym
{

template <class T> struct PageAllocator
{
    using value_type = T;

    PageAllocator() = default;
    template <class Other> PageAllocator(const PageAllocator<Other>& /*other*/) {}

    T* allocate(std::size_t count)
    {
        if (!IsLarge(count))
        {
            return std::allocator<T>().allocate(count);
        }
        void* const block =
            mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
        {
            throw std::bad_alloc();
        }
        return static_cast<T*>(block);
    }

    void deallocate(T* block, std::size_t count) noexcept
    {
        if (IsLarge(count))
        {
            munmap(block, count * sizeof(T));
        }
        else
        {
            std::allocator<T>().deallocate(block, count);
        }
    }

    bool operator==(const PageAllocator& /*other*/) const { return true; }

  private:
    static constexpr std::size_t LARGE_BYTES = 128 * 1024; // of which a half-used page is little

    static bool IsLarge(std::size_t count) { return count > LARGE_BYTES / sizeof(T); }
};

} // namespace bbrgym

#endif
