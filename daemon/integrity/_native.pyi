"""
Types of the extension that native/ builds: what native/cffi_build.py declares, as Python sees it.

Integers are checked by cffi at run time (OverflowError); pointers take a C object of the very type, and ``bytes`` where
the C side only reads.
"""

from typing import final, overload

from typing_extensions import Buffer

@final
class CType:
    """A parsed C declaration."""

@final
class CData:
    """
    A pointer, an array or a structure; a pointer's structure is item 0, and assigning to that copies it.

    The fields of a structure are attributes of it and of a pointer to it.
    """

    def __getattr__(self, name: str) -> int: ...
    def __setattr__(self, name: str, value: CData | int) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> CData: ...
    def __setitem__(self, index: int, value: CData) -> None: ...

@final
class CBuffer(Buffer):
    """The memory of a C object; slices of it are copies."""

    def __getitem__(self, index: slice) -> bytes: ...

class _FFI:
    NULL: CData
    def new(
        self,
        ctype: CType | str,
        init: int
        | tuple[CData | int | tuple[CData, int, int], ...]
        | list[tuple[CData, CData, int]]
        | list[tuple[int, int]] = ...,
    ) -> CData: ...
    def typeof(self, declaration: str) -> CType: ...
    def cast(self, ctype: str, value: CData) -> CData: ...
    def addressof(self, cdata: CData, field_or_index: str | int) -> CData: ...
    @overload
    def from_buffer(self, buffer: Buffer) -> CData: ...
    @overload
    def from_buffer(self, ctype: str, buffer: Buffer) -> CData: ...
    def buffer(self, cdata: CData, size: int = ...) -> CBuffer: ...
    def unpack(self, cdata: CData, length: int) -> bytes: ...
    def string(self, cdata: CData) -> bytes: ...

class _Lib:
    MD5_STATE_MAX_BYTES: int
    MD5_FEATURE_X86_64: int
    MD5_FEATURE_INTERLEAVED: int
    MD5_FEATURE_NEON: int
    MD5_FEATURE_AVX2: int
    MD5_FEATURE_AVX512: int
    MD5_FEATURES_ALL: int
    def md5_init(self, context: CData) -> int: ...
    def md5_update(self, context: CData, data: CData | bytes, size_bytes: int) -> None: ...
    def md5_begin(self, context: CData, data: CData | bytes, size_bytes: int) -> int: ...
    def md5_final(self, context: CData, digest: CData) -> None: ...
    def md5_export(self, context: CData, state: CData) -> int: ...
    def md5_import(self, context: CData, state: CData | bytes, size_bytes: int) -> int: ...
    def md5_state_problem(self, state: CData | bytes, size_bytes: int) -> CData: ...
    def md5_set_feature_mask(self, mask: int) -> None: ...
    def md5_features(self) -> int: ...
    def md5_features_in_use(self) -> int: ...
    def md5_batch_joined(self, data: CData | bytes, sizes_bytes: CData, count: int, digests: CData) -> int: ...
    def md5_batch(self, messages: CData, count: int, digests: CData) -> int: ...
    def md5_scheduler_bytes(self) -> int: ...
    def md5_scheduler_init(self, scheduler: CData) -> int: ...
    def md5_scheduler_step(self, scheduler: CData) -> None: ...
    def md5_scheduler_flush(self, scheduler: CData) -> None: ...
    CRC64_FEATURE_CLMUL: int
    CRC64_FEATURE_VCLMUL: int
    CRC64_FEATURES_ALL: int
    def crc64_select(self) -> int: ...
    def crc64_update(self, crc: int, data: CData | bytes, size_bytes: int) -> int: ...
    def crc64_blocks(self, data: CData | bytes, size_bytes: int, block_bytes: int, values: CData) -> None: ...
    def crc64_combine(self, first: int, second: int, second_bytes: int) -> int: ...
    def crc64_combine_blocks(self, values: CData, count: int, block_bytes: int, last_bytes: int) -> int: ...
    def crc64_set_feature_mask(self, mask: int) -> None: ...
    def crc64_features(self) -> int: ...
    def crc64_features_in_use(self) -> int: ...
    FILE_BATCH_READ: int
    def stable_batch_read(
        self,
        root_fd: int,
        paths: CData,
        limit_bytes: int,
        recent_since_ns: int,
        arena: CData,
        arena_bytes: int,
        records: CData,
    ) -> int: ...
    def stable_batch_read_disk(
        self,
        root_fd: int,
        paths: CData,
        limit_bytes: int,
        recent_since_ns: int,
        most_ns: int,
        arena: CData,
        arena_bytes: int,
        records: CData,
    ) -> int: ...
    def position_batch_find(self, root_fd: int, paths: CData, positions: CData) -> None: ...
    def load_batch_read(
        self, paths: CData, limit_bytes: int, arena: CData, arena_bytes: int, records: CData
    ) -> int: ...
    FILE_BATCH_MD5: int
    FILE_BATCH_XXH3_128: int
    FILE_BATCH_CRC64NVME: int
    def file_batch_digest(
        self, scheduler: CData, wanted: int, arena: CData, records: CData, count: int, unfinished: CData
    ) -> None: ...
    SEAL_BATCH_MOST_PATH_BYTES: int
    SEAL_BATCH_NONE: int
    def seal_batch_new(self, terms: CData, files: CData, seals: CData, state_seals: CData, tally: CData) -> None: ...
    LARGE_BATCH_IDLE: int
    LARGE_BATCH_ACTIVE: int
    LARGE_BATCH_HALTED: int
    LARGE_BATCH_FAILED: int
    def large_batch_begin(self, file: CData) -> int: ...
    def large_batch_run(
        self,
        scheduler: CData,
        files: CData,
        count: int,
        pieces: CData,
        piece_bytes: int,
        stride_bytes: int,
        most_ns: int,
    ) -> int: ...
    FOLDER_BATCH_LISTED: int
    FOLDER_BATCH_NOT_MINE: int
    FOLDER_BATCH_TOO_LARGE: int
    FOLDER_BATCH_ENDED: int
    FOLDER_BATCH_FOLDER: int
    FOLDER_BATCH_SYMLINK: int
    FOLDER_BATCH_COLUMNS: int
    def folder_batch_scratch_bytes(self, names_room: int) -> int: ...
    def folder_batch_list(
        self,
        root_fd: int,
        stays_on_mount: int,
        paths: bytes,
        paths_bytes: int,
        count: int,
        marked: CData,
        marked_count: int,
        enough: int,
        result: CData,
    ) -> int: ...
    def folder_batch_continue(
        self, fd: int, most_names: int, marked: CData, marked_count: int, result: CData
    ) -> None: ...

ffi: _FFI
lib: _Lib
